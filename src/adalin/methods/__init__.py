"""Methods: an optimiser, the activation of the hidden layers, and rules that act on the weights while training."""

from adalin.methods._activations import Activation, ActivationMethod
from adalin.methods._method import Method, methods, register_method
from adalin.methods._rule import Now, Rule, overrides

__all__ = ["Activation", "ActivationMethod", "Method", "Now", "Rule", "methods", "overrides", "register_method"]
