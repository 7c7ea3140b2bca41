"""Methods: the activation of the hidden layers, and rules that act on the weights while training."""

from adalin.methods._activations import Activation, ActivationMethod
from adalin.methods._method import Method, methods, register_method
from adalin.methods._rule import Fresh, Rule, overrides

__all__ = ["Activation", "ActivationMethod", "Fresh", "Method", "Rule", "methods", "overrides", "register_method"]
