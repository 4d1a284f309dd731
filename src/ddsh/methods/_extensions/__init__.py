"""How the codes of training items are carried over to new items: the second step of every two-step method."""

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from ddsh.errors import InvalidInput, UnknownName
from ddsh.methods._extensions.base import Extension, Learned, Progress
from ddsh.methods._extensions.cnn import CNN
from ddsh.methods._extensions.kernel import Kernel
from ddsh.methods._extensions.linear import Linear
from ddsh.methods._extensions.trees import Trees

__all__ = ["CNN", "EXTENSIONS", "Extension", "Kernel", "Learned", "Linear", "Progress", "Trees", "as_extension"]


EXTENSIONS: Mapping[str, type[Extension]] = {cls.kind: cls for cls in (CNN, Kernel, Linear, Trees)}


def as_extension(given: str | Mapping[str, Any] | Extension) -> Extension:
    """Return an extension that is given by name, described in plain values, or as it is.

    Parameters
    ----------
    given : str, mapping or Extension
        A name of `EXTENSIONS`, ``{"kind": name}`` with parameters besides, or an extension.
    """
    if isinstance(given, Extension):
        return given
    description = {"kind": given} if isinstance(given, str) else given
    if not isinstance(description, Mapping) or "kind" not in description:
        raise InvalidInput(f"An extension is a name or has a kind, one of {', '.join(EXTENSIONS)}; got {given!r}.")
    if description["kind"] not in EXTENSIONS:
        raise UnknownName("extension", str(description["kind"]), EXTENSIONS)
    return _described(
        EXTENSIONS[description["kind"]], {name: description[name] for name in description if name != "kind"}
    )


def _described(cls: type[Extension], params: dict[str, Any]) -> Extension:
    """Return an extension with some of its parameters, or say which one it does not have."""
    known = [parameter.name for parameter in fields(cls)]
    for name in params:
        if name not in known:
            raise InvalidInput(f"The extension {cls.kind!r} has no parameter {name!r}; it has {', '.join(known)}.")
    return cls.from_description(params) if params else cls()
