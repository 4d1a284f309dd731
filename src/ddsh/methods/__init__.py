"""The methods, one file per paper; listing them imports none of them."""

import importlib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ddsh.errors import DdshError, UnknownName

if TYPE_CHECKING:
    from ddsh.methods.base import Hasher

METHODS: Mapping[str, str] = {
    "cosdish": "ddsh.methods.cosdish:COSDISH",
    "ddsh": "ddsh.methods.ddsh:DDSH",
    "ddsh0": "ddsh.methods.ddsh:DDSH0",
    "ddsh-mac": "ddsh.methods.ddsh:DDSHMAC",
    "dhn": "ddsh.methods.dhn:DHN",
    "dpsh": "ddsh.methods.dpsh:DPSH",
    "dsh": "ddsh.methods.dsh:DSH",
    "fasth": "ddsh.methods.fasth:FastH",
    "itq": "ddsh.methods.itq:ITQ",
    "lfh": "ddsh.methods.lfh:LFH",
    "lsh": "ddsh.methods.lsh:LSH",
    "sdh": "ddsh.methods.sdh:SDH",
}


def __getattr__(name: str) -> Any:  # noqa: ANN401 -- a module attribute can be anything
    if name not in ("SavedModel", "load_model", "save_model"):
        raise AttributeError(f"module 'ddsh.methods' has no attribute {name!r}")
    return getattr(importlib.import_module("ddsh.methods._models"), name)


def get_method(name: str) -> "type[Hasher]":
    """Return the class of a method, or say which one was probably meant."""
    if name not in METHODS:
        raise UnknownName("method", name, METHODS)
    module, cls = METHODS[name].split(":")
    try:
        method: type[Hasher] = getattr(importlib.import_module(module), cls)
    except ModuleNotFoundError as error:
        if error.name != "torch":
            raise
        raise DdshError(f"{name} needs PyTorch. Run: pip install 'ddsh[deep]'") from error
    return method
