"""HTML that cannot be broken by what is put into it: all text is escaped unless it is HTML already."""

import html
from collections.abc import Iterable

LONGEST = 120
"""Longer names are cut in the page; no real one is."""

_VOID = frozenset({"br", "meta"})


class Html(str):
    """Text that is HTML already."""

    __slots__ = ()


def element(kind: str, /, *children: str, **attributes: str | int | bool | None) -> Html:
    """Return an element; children that are plain text are escaped.

    Parameters
    ----------
    kind : str
        Its name.
    *children : str or Html
        What is in it.
    **attributes : str, int, bool or None
        Its attributes, ``_`` for ``-``, and one at the end where the name is a word of Python; None and False leave one
        out.
    """
    opening = kind + "".join(_attribute(key, value) for key, value in attributes.items())
    return Html(f"<{opening}>") if kind in _VOID else Html(f"<{opening}>{join(children)}</{kind}>")


def join(children: Iterable[str]) -> Html:
    """Return one after the other; what is plain text is escaped."""
    return Html("".join(child if isinstance(child, Html) else html.escape(child) for child in children))


def printable(text: str) -> str:
    """Return text that can be shown and written anywhere: no control characters, no half characters."""
    return "".join(character if character.isprintable() else "\N{REPLACEMENT CHARACTER}" for character in text)


def plain(text: object) -> str:
    """Return anything as one short line that can be shown."""
    line = str(text)
    return printable(line if len(line) <= LONGEST else f"{line[:LONGEST]}…")


def _attribute(name: str, value: str | int | bool | None) -> str:
    if value is None or value is False:
        return ""
    key = name.rstrip("_").replace("_", "-")
    return f" {key}" if value is True else f' {key}="{html.escape(str(value))}"'
