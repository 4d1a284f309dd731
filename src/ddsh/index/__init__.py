"""Hamming indexes: exact nearest neighbours of binary codes.

All indexes return the same neighbours in the same order and differ in speed only. Listing them imports none of them.
"""

import importlib
import os
from collections.abc import Mapping
from typing import TYPE_CHECKING

from ddsh.errors import UnknownName

if TYPE_CHECKING:
    from ddsh.index._engine import load_kernels
    from ddsh.index._storage import verify
    from ddsh.index.base import Hits, Index
    from ddsh.index.buckets import BucketsIndex
    from ddsh.index.exact import ExactIndex
    from ddsh.index.faiss import FaissIndex
else:  # type checkers see the imports above
    import lazy_loader

    __getattr__, _, _ = lazy_loader.attach(
        __name__,
        submod_attrs={
            "_engine": ["load_kernels"],
            "_storage": ["verify"],
            "base": ["Hits", "Index"],
            "buckets": ["BucketsIndex"],
            "exact": ["ExactIndex"],
            "faiss": ["FaissIndex"],
        },
    )

__all__ = [
    "INDEXES",
    "BucketsIndex",
    "ExactIndex",
    "FaissIndex",
    "Hits",
    "Index",
    "get_index",
    "load_index",
    "load_kernels",
    "verify",
]

INDEXES: Mapping[str, str] = {
    "exact": "ddsh.index.exact:ExactIndex",
    "faiss": "ddsh.index.faiss:FaissIndex",
    "buckets": "ddsh.index.buckets:BucketsIndex",
}
"""Registered indexes: name to ``module:class``."""


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])


def get_index(name: str) -> "type[Index]":
    """Return the index class registered under a name.

    Raises
    ------
    UnknownName
        If there is none; the message suggests the closest name.
    """
    if name not in INDEXES:
        raise UnknownName("index", name, INDEXES)
    module, cls = INDEXES[name].split(":")
    index: type[Index] = getattr(importlib.import_module(module), cls)
    return index


def load_index(path: str | os.PathLike[str]) -> "Index":
    """Load a saved index with the class that saved it."""
    from ddsh.index._storage import kind_of

    return get_index(kind_of(path, INDEXES)).load(path)
