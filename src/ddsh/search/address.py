"""Addresses of stores: a folder, ``postgresql://...`` or ``milvus://...``.

- ``./folder`` or any path: :class:`ddsh.search.local.LocalStore`.
- ``postgresql://user@host:port/database``: :class:`ddsh.search.postgres.PostgresStore`. The password comes from
  ``PGPASSWORD`` or the file ``PGPASSFILE``; all parameters of libpq may follow the database.
- ``milvus://host:port`` or ``milvus://host:port/database``: :class:`ddsh.search.milvus.MilvusStore`. The token comes
  from ``MILVUS_TOKEN``. ``milvus://path/to/file.db`` is a file of Milvus Lite.
"""

import os
from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlsplit

from ddsh.errors import InvalidInput
from ddsh.search.local import LocalStore, is_search
from ddsh.search.store import SearchManifest, Store

__all__ = ["create_store", "has_password", "has_store", "is_database", "open_store"]

_SCHEMES = ("postgresql", "postgres", "milvus")


def is_database(address: str | os.PathLike[str]) -> bool:
    """Return whether an address is that of a database.

    Raises
    ------
    InvalidInput
        If it is the address of something unknown.
    """
    scheme, separator, _ = os.fspath(address).partition("://")
    if not separator or not scheme.isalnum():
        return False
    if scheme not in _SCHEMES:
        raise InvalidInput(f"{scheme}:// is no store; use a folder, postgresql://... or milvus://...")
    return True


def has_password(address: str) -> bool:
    """Return whether the address of a database contains a password."""
    return is_database(address) and ("password=" in address or urlsplit(address).password is not None)


def open_store(address: str | os.PathLike[str], wait: float) -> Store:
    """Open the store at an address.

    Parameters
    ----------
    address : path or str
        The address.
    wait : float
        Seconds to wait for another writer before :class:`~ddsh.errors.Busy` is raised.
    """
    if not is_database(address):
        return LocalStore(address, wait)
    text = os.fspath(address)
    if text.startswith("milvus:"):
        from ddsh.search.milvus import MilvusStore

        return MilvusStore(text, wait)
    from ddsh.search.postgres import PostgresStore

    return PostgresStore(text, wait)


def create_store(
    address: str | os.PathLike[str], manifest: SearchManifest, save_model: Callable[[Path], object], wait: float
) -> Store:
    """Create an empty store at an address; see :meth:`ddsh.search.local.LocalStore.create`."""
    if not is_database(address):
        return LocalStore.create(address, manifest, save_model, wait)
    text = os.fspath(address)
    if text.startswith("milvus:"):
        from ddsh.search.milvus import MilvusStore

        return MilvusStore.create(text, manifest, save_model, wait)
    from ddsh.search.postgres import PostgresStore

    return PostgresStore.create(text, manifest, save_model, wait)


def has_store(address: str | os.PathLike[str]) -> bool:
    """Return whether there is a store at an address."""
    if not is_database(address):
        return is_search(address)
    text = os.fspath(address)
    if text.startswith("milvus:"):
        from ddsh.search.milvus import MilvusStore

        return MilvusStore.exists(text)
    from ddsh.search.postgres import PostgresStore

    return PostgresStore.exists(text)
