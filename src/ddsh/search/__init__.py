"""Search: a model, an index and a catalogue of images in one folder."""

import importlib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

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


def __getattr__(name: str) -> Any:  # noqa: ANN401 -- a module attribute can be anything
    if name not in _HOMES:
        raise AttributeError(f"module 'ddsh.search' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES[name]), name)
