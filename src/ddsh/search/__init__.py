"""Image search: a model, and a store of images with codes and labels."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ddsh.errors import Busy
    from ddsh.search.engine import ImageSearch
    from ddsh.search.local import LocalStore
    from ddsh.search.results import (
        AddReport,
        Hit,
        LabelChange,
        LabelReport,
        QueryCode,
        QueryResult,
        RefreshReport,
        RemovedImage,
        SearchInfo,
        UpgradeReport,
    )
    from ddsh.search.store import Entry, Filter, Store, StoreWriter
else:  # type checkers see the imports above
    import lazy_loader

    __getattr__, __dir__, _ = lazy_loader.attach(
        __name__,
        submod_attrs={
            "engine": ["ImageSearch"],
            "local": ["Busy", "LocalStore"],
            "results": [
                "AddReport",
                "Hit",
                "LabelChange",
                "LabelReport",
                "QueryCode",
                "QueryResult",
                "RefreshReport",
                "RemovedImage",
                "SearchInfo",
                "UpgradeReport",
            ],
            "store": ["Entry", "Filter", "Store", "StoreWriter"],
        },
    )

__all__ = [
    "AddReport",
    "Busy",
    "Entry",
    "Filter",
    "Hit",
    "ImageSearch",
    "LabelChange",
    "LabelReport",
    "LocalStore",
    "QueryCode",
    "QueryResult",
    "RefreshReport",
    "RemovedImage",
    "SearchInfo",
    "Store",
    "StoreWriter",
    "UpgradeReport",
]
