"""Names that are imported when they are first used."""

import importlib
from collections.abc import Callable, Mapping
from typing import Any


def lazy(package: str, homes: Mapping[str, str]) -> Callable[[str], Any]:
    """Return the ``__getattr__`` of a package whose names live in other modules.

    Parameters
    ----------
    package : str
        Its name.
    homes : mapping of str to str
        The module of each name.
    """

    def find(name: str) -> Any:  # noqa: ANN401 -- a module attribute can be anything
        """Return an attribute of the package, from the module it is at home in."""
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(importlib.import_module(homes[name]), name)

    return find
