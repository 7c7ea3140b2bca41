"""Networks that keep learning: AdaLin for any PyTorch model."""

from adalin.nn import Activation as Activation
from adalin.nn import AdaLin as AdaLin
from adalin.nn import Base as Base
from adalin.nn import Conversion as Conversion
from adalin.nn import CReLU as CReLU
from adalin.nn import DeepFourier as DeepFourier
from adalin.nn import Interpolation as Interpolation
from adalin.nn import Site as Site
from adalin.nn import activations as activations
from adalin.nn import bases as bases
from adalin.nn import convert as convert
from adalin.nn import make_activation as make_activation
from adalin.nn import param_groups as param_groups
from adalin.nn import register_activation as register_activation
