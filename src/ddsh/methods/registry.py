"""Registry of methods; listing the names imports no method."""

import importlib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ddsh.errors import InvalidInput, MissingExtra, UnknownName
from ddsh.plugins import find_object, plugin_names

if TYPE_CHECKING:
    from ddsh.methods.base import Hasher

__all__ = ["METHODS", "get_method", "method_names"]

METHODS: Mapping[str, str] = {
    "adsh": "ddsh.methods.adsh:ADSH",
    "affhash": "ddsh.methods.affhash:AFFHash",
    "agh": "ddsh.methods.agh:AGH",
    "bihalf": "ddsh.methods.bihalf:BiHalf",
    "cibhash": "ddsh.methods.cibhash:CIBHash",
    "cnnh": "ddsh.methods.cnnh:CNNH",
    "cosdish": "ddsh.methods.cosdish:COSDISH",
    "csq": "ddsh.methods.csq:CSQ",
    "ddsh": "ddsh.methods.ddsh:DDSH",
    "ddsh0": "ddsh.methods.ddsh:DDSH0",
    "ddsh-mac": "ddsh.methods.ddsh:DDSHMAC",
    "dgh": "ddsh.methods.dgh:DGH",
    "dhn": "ddsh.methods.dhn:DHN",
    "dpn": "ddsh.methods.dpn:DPN",
    "dpsh": "ddsh.methods.dpsh:DPSH",
    "dsch": "ddsh.methods.dsch:DSCH",
    "dsdh": "ddsh.methods.dsdh:DSDH",
    "dsh": "ddsh.methods.dsh:DSH",
    "dsrh": "ddsh.methods.dsrh:DSRH",
    "dtsh": "ddsh.methods.dtsh:DTSH",
    "fasth": "ddsh.methods.fasth:FastH",
    "greedyhash": "ddsh.methods.greedyhash:GreedyHash",
    "hashnet": "ddsh.methods.hashnet:HashNet",
    "imh": "ddsh.methods.imh:IMH",
    "isohash": "ddsh.methods.isohash:IsoHash",
    "itq": "ddsh.methods.itq:ITQ",
    "klsh": "ddsh.methods.klsh:KLSH",
    "ksh": "ddsh.methods.ksh:KSH",
    "lfh": "ddsh.methods.lfh:LFH",
    "lsh": "ddsh.methods.lsh:LSH",
    "nhl": "ddsh.methods.nhl:NHL",
    "ninh": "ddsh.methods.ninh:NINH",
    "orthohash": "ddsh.methods.orthohash:OrthoHash",
    "sdh": "ddsh.methods.sdh:SDH",
    "semantic-hashing": "ddsh.methods.semantic_hashing:SemanticHashing",
    "sh": "ddsh.methods.sh:SH",
    "sph": "ddsh.methods.sph:SPH",
    "sth": "ddsh.methods.sth:STH",
    "tsh": "ddsh.methods.tsh:TSH",
}
"""Built-in methods: name to ``module:class``."""


def method_names() -> list[str]:
    """Return the names of all methods, including installed plugins."""
    return sorted({*METHODS, *plugin_names("ddsh.methods")})


def get_method(name: str) -> "type[Hasher]":
    """Return the class of a method.

    Parameters
    ----------
    name : str
        A name of :data:`METHODS`, an entry point of the group ``ddsh.methods``, or ``module:Class``.
    """
    if name in METHODS:
        module, cls = METHODS[name].split(":")
        try:
            found: Any = getattr(importlib.import_module(module), cls)
        except ModuleNotFoundError as error:
            if error.name != "torch":
                raise
            raise MissingExtra(name, "PyTorch", "deep") from error
    else:
        found = find_object(name, "ddsh.methods")
        if found is None:
            raise UnknownName("method", name, method_names())
    from ddsh.methods.base import Hasher

    if not (isinstance(found, type) and issubclass(found, Hasher)):
        raise InvalidInput(f"{name} is not a method: expected a subclass of ddsh.methods.Hasher.")
    return found
