"""Datasets, and protocols that split them into query, train, database.

Names are imported on first use, so that ``import ddsh.datasets`` costs next to nothing.
"""

from typing import TYPE_CHECKING

__all__ = [
    "DATASETS",
    "PROTOCOLS",
    "SOURCES",
    "Dataset",
    "DatasetCard",
    "DatasetReport",
    "LearnedDatabaseProtocol",
    "Protocol",
    "Skipped",
    "Split",
    "SubsampledProtocol",
    "ValidationProtocol",
    "check_dataset",
    "fetch",
    "from_items",
    "get_protocol",
    "is_unlabelled",
    "load",
    "load_folder",
    "load_table",
    "load_unlabelled",
    "register",
]

if TYPE_CHECKING:
    from ddsh.datasets.base import Dataset, Skipped
    from ddsh.datasets.download import SOURCES, fetch
    from ddsh.datasets.folder import is_unlabelled, load_folder, load_unlabelled
    from ddsh.datasets.inspection import DatasetReport, check_dataset
    from ddsh.datasets.items import from_items
    from ddsh.datasets.protocols import (
        PROTOCOLS,
        LearnedDatabaseProtocol,
        Protocol,
        Split,
        SubsampledProtocol,
        ValidationProtocol,
        get_protocol,
    )
    from ddsh.datasets.registry import DATASETS, DatasetCard, load, register
    from ddsh.datasets.table import load_table
else:  # a type checker would take any name for granted if it saw __getattr__
    import lazy_loader

    __getattr__, __dir__, _ = lazy_loader.attach(
        __name__,
        submodules={
            "base",
            "cifar10",
            "download",
            "flickr8k",
            "folder",
            "inspection",
            "items",
            "lists",
            "mnist",
            "nuswide",
            "protocols",
            "registry",
            "svhn",
            "table",
        },
        submod_attrs={
            "base": ["Dataset", "Skipped"],
            "download": ["SOURCES", "fetch"],
            "folder": ["is_unlabelled", "load_folder", "load_unlabelled"],
            "inspection": ["DatasetReport", "check_dataset"],
            "items": ["from_items"],
            "protocols": [
                "PROTOCOLS",
                "LearnedDatabaseProtocol",
                "Protocol",
                "Split",
                "SubsampledProtocol",
                "ValidationProtocol",
                "get_protocol",
            ],
            "registry": ["DATASETS", "DatasetCard", "load", "register"],
            "table": ["load_table"],
        },
    )
