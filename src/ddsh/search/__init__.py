"""Search: a model, an index and a catalogue of images in one folder."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from ddsh.lazy import lazy

if TYPE_CHECKING:
    from ddsh.search.catalogue import Entry
    from ddsh.search.engine import ImageSearch
    from ddsh.search.folder import Busy
    from ddsh.search.hits import Hit
    from ddsh.search.reports import AddReport, RefreshReport, SearchInfo

__all__ = ["AddReport", "Busy", "Entry", "Hit", "ImageSearch", "RefreshReport", "SearchInfo"]

_HOMES: Mapping[str, str] = {
    "AddReport": "ddsh.search.reports",
    "Busy": "ddsh.search.folder",
    "Entry": "ddsh.search.catalogue",
    "Hit": "ddsh.search.hits",
    "ImageSearch": "ddsh.search.engine",
    "RefreshReport": "ddsh.search.reports",
    "SearchInfo": "ddsh.search.reports",
}
__getattr__ = lazy(__name__, _HOMES)
