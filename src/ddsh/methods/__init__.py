"""The methods, one file per paper; listing them imports none of them."""

import importlib
from collections.abc import Mapping
from typing import TYPE_CHECKING

from ddsh.errors import UnknownName

if TYPE_CHECKING:
    from ddsh.base import Hasher

METHODS: Mapping[str, str] = {
    "lsh": "ddsh.methods.lsh:LSH",
}


def get_method(name: str) -> "type[Hasher]":
    """Return the class of a method, or say which one was probably meant."""
    if name not in METHODS:
        raise UnknownName("method", name, METHODS)
    module, cls = METHODS[name].split(":")
    method: type[Hasher] = getattr(importlib.import_module(module), cls)
    return method
