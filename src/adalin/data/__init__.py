"""The images that streams are made of: found on disk, checked by SHA-256, and loaded as tensors."""

from adalin.data._catalogue import datasets as datasets
from adalin.data._dataset import DataError as DataError
from adalin.data._dataset import Dataset as Dataset
from adalin.data._fetch import fetch as fetch
from adalin.data._load import BUNDLED as BUNDLED
from adalin.data._load import Report as Report
from adalin.data._load import load as load
from adalin.data._load import verify as verify
from adalin.data._where import Location as Location
from adalin.data._where import where as where
