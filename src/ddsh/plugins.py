"""Methods, backbones and datasets from outside the package.

A name may be ``module:object``, or the name of an entry point in the group ``ddsh.methods``, ``ddsh.backbones`` or
``ddsh.datasets`` of an installed package.
"""

import importlib
import sys
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

from ddsh.errors import InvalidInput

__all__ = ["find_object", "plugin_names"]


def plugin_names(group: str) -> list[str]:
    """Return the names that installed packages add to a group such as ``ddsh.methods``."""
    return sorted({entry.name for entry in entry_points(group=group)})


def find_object(name: str, group: str) -> Any | None:  # noqa: ANN401 -- a plugin can be anything
    """Return the object behind ``module:object`` or an entry point, or None if the name is neither.

    Parameters
    ----------
    name : str
        ``module:object`` or the name of an entry point.
    group : str
        The group of entry points, such as ``ddsh.methods``.
    """
    if ":" in name:
        module, _, attribute = name.partition(":")
        # As `python -m` does: a module beside the user's work is found wherever the command is installed.
        if str(Path.cwd()) not in sys.path:
            sys.path.append(str(Path.cwd()))
    else:
        found = next((entry for entry in entry_points(group=group) if entry.name == name), None)
        if found is None:
            return None
        module, attribute = found.module, found.attr
    try:
        value: Any = importlib.import_module(module)
        for part in attribute.split("."):
            value = getattr(value, part)
    except Exception as error:  # the code of others may fail in any way
        reason = " ".join(str(error).split())
        raise InvalidInput(f"{name} cannot be loaded ({type(error).__name__}: {reason}).") from error
    return value
