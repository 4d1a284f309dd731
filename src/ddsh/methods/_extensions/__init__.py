"""Out-of-sample extensions, the second step of two-step methods."""

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from ddsh.errors import InvalidInput, UnknownName
from ddsh.methods._extensions.base import Extension, FitOptions, Learned
from ddsh.methods._extensions.cnn import CNN
from ddsh.methods._extensions.kernel import Kernel
from ddsh.methods._extensions.linear import Linear
from ddsh.methods._extensions.trees import Trees

__all__ = ["CNN", "EXTENSIONS", "Extension", "FitOptions", "Kernel", "Learned", "Linear", "Trees", "as_extension"]


EXTENSIONS: Mapping[str, type[Extension]] = {cls.kind: cls for cls in (CNN, Kernel, Linear, Trees)}
"""Extensions by name."""


def as_extension(given: str | Mapping[str, Any] | Extension) -> Extension:
    """Return an extension, given by name, by plain values, or as an object.

    Parameters
    ----------
    given : str, mapping or Extension
        A name of `EXTENSIONS`, a mapping with its ``kind`` and parameters, or an extension.
    """
    if isinstance(given, Extension):
        return given
    description = {"kind": given} if isinstance(given, str) else given
    if not isinstance(description, Mapping) or "kind" not in description:
        raise InvalidInput(f"An extension is a name or has a kind, one of {', '.join(EXTENSIONS)}; got {given!r}.")
    if description["kind"] not in EXTENSIONS:
        raise UnknownName("extension", str(description["kind"]), EXTENSIONS)
    cls = EXTENSIONS[description["kind"]]
    params = {name: description[name] for name in description if name != "kind"}
    known = [parameter.name for parameter in fields(cls)]
    for name in params:
        if name not in known:
            raise InvalidInput(f"The extension {cls.kind!r} has no parameter {name!r}; it has {', '.join(known)}.")
    return cls.from_description(params) if params else cls()
