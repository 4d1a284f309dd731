"""Search: a model, an index and a catalogue of images in one folder."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from ddsh.lazy import lazy

if TYPE_CHECKING:
    from ddsh.search.catalogue import Entry
    from ddsh.search.engine import Hit, ImageSearch, SearchInfo
    from ddsh.search.folder import Busy
    from ddsh.search.onnx import export_onnx
    from ddsh.search.reports import AddReport, RefreshReport

__all__ = ["AddReport", "Busy", "Entry", "Hit", "ImageSearch", "RefreshReport", "SearchInfo", "export_onnx"]

_HOMES: Mapping[str, str] = {
    "AddReport": "ddsh.search.reports",
    "Busy": "ddsh.search.folder",
    "Entry": "ddsh.search.catalogue",
    "Hit": "ddsh.search.engine",
    "ImageSearch": "ddsh.search.engine",
    "RefreshReport": "ddsh.search.reports",
    "SearchInfo": "ddsh.search.engine",
    "export_onnx": "ddsh.search.onnx",
}
__getattr__ = lazy(__name__, _HOMES)
