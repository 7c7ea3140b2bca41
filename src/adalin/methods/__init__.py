"""Methods: the activation of the hidden layers, and rules that act on the weights while training."""

from adalin.methods._activations import Activation
from adalin.methods._method import Method, methods, register_method
from adalin.methods._rule import Fresh, Rule

__all__ = ["Activation", "Fresh", "Method", "Rule", "methods", "register_method"]
