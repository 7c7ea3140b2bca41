"""AdaLin in place of the activations of a model that somebody else wrote."""

from adalin.nn._convert._convert import convert as convert
from adalin.nn._convert._report import Conversion as Conversion
from adalin.nn._convert._report import Site as Site
