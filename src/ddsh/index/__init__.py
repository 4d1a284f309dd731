"""Indexes: who is nearest to a code. All give the same exact answers; listing them imports none of them."""

import importlib
import os
from collections.abc import Mapping
from typing import TYPE_CHECKING

from ddsh.errors import UnknownName
from ddsh.lazy import lazy

if TYPE_CHECKING:
    from ddsh.index.base import Index

INDEXES: Mapping[str, str] = {
    "exact": "ddsh.index.exact:ExactIndex",
    "faiss": "ddsh.index.faiss:FaissIndex",
    "buckets": "ddsh.index.buckets:BucketsIndex",
}

_HOMES: Mapping[str, str] = {
    "BucketsIndex": "ddsh.index.buckets",
    "ExactIndex": "ddsh.index.exact",
    "FaissIndex": "ddsh.index.faiss",
    "Hits": "ddsh.index.base",
    "Index": "ddsh.index.base",
    "verify": "ddsh.index._files",
}
__getattr__ = lazy(__name__, _HOMES)


def get_index(name: str) -> "type[Index]":
    """Return the class of an index, or say which one was probably meant."""
    if name not in INDEXES:
        raise UnknownName("index", name, INDEXES)
    module, cls = INDEXES[name].split(":")
    index: type[Index] = getattr(importlib.import_module(module), cls)
    return index


def load_index(path: str | os.PathLike[str]) -> "Index":
    """Open a saved index with the class that saved it."""
    from ddsh.index._files import kind_of

    return get_index(kind_of(path, INDEXES)).load(path)
