"""Datasets as people have them, and the protocols that split them."""

from ddsh.datasets.dataset import Dataset, Skipped
from ddsh.datasets.protocols import PROTOCOLS, Protocol, Split, get_protocol
from ddsh.datasets.registry import DATASETS, DatasetCard, load

__all__ = [
    "DATASETS",
    "PROTOCOLS",
    "Dataset",
    "DatasetCard",
    "Protocol",
    "Skipped",
    "Split",
    "get_protocol",
    "load",
]
