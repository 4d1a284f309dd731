"""Shards of images: lists of files and WebDataset archives.

An *address* is an absolute path, or a URL of any file system that fsspec knows, such as ``s3://bucket/photos/1.jpg``.
An image inside an archive has the address of the archive, a slash, and its name there.
"""

import json
import os
import posixpath
import re
import tarfile
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Self
from urllib.parse import urlsplit

import fsspec

from ddsh.datasets.table import TABLES, read_rows
from ddsh.errors import BrokenImage, DataError, DdshError, InvalidInput
from ddsh.images import MAX_BYTES, is_image_name

__all__ = [
    "SHARD_SIZE",
    "Shard",
    "ShardImage",
    "error_text",
    "find_shards",
    "is_remote",
    "open_file_system",
    "read_shard",
    "split_files",
]

SHARD_SIZE = 512
"""Default number of images of a shard that is a list of files; an interruption loses at most the shards at work."""

_ARCHIVES = (".tar", ".tar.gz", ".tgz")
_COLLAPSED = re.compile(r"^([a-z][a-z0-9+.-]*):/+")


@dataclass(frozen=True)
class Shard:
    """Images that one worker encodes at a time.

    Parameters
    ----------
    number : int
        Position in the job.
    addresses : list of str
        Addresses of images, or of one archive.
    labels : list of list of str
        Labels of each image; empty if there are none.
    is_archive : bool
        Whether it is a WebDataset archive.
    """

    number: int
    addresses: list[str]
    labels: list[list[str]] = field(default_factory=list)
    is_archive: bool = False

    def to_json(self) -> str:
        """Return the shard as JSON."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Read a shard that :meth:`to_json` wrote."""
        return cls(**json.loads(text))


@dataclass(frozen=True)
class ShardImage:
    """An image of a shard; `data` is None if it cannot be read, and then `error` says why."""

    address: str
    data: bytes | None
    error: str = ""
    mtime_ns: int = 0
    labels: tuple[str, ...] = ()
    metadata: str = "{}"


def is_remote(source: str) -> bool:
    """Return whether a source is the URL of another file system, or consists of archives."""
    return "://" in source or "*" in source or source.endswith(_ARCHIVES)


def split_files(addresses: Sequence[str], labels: Sequence[list[str]] = (), size: int = SHARD_SIZE) -> list[Shard]:
    """Divide a list of image files into shards of at most `size`, in their order."""
    return [
        Shard(number, list(addresses[start : start + size]), list(labels[start : start + size]))
        for number, start in enumerate(range(0, len(addresses), size))
    ]


def find_shards(source: str, size: int = SHARD_SIZE) -> list[Shard]:
    """Find images and divide them into shards.

    Parameters
    ----------
    source : str
        A folder, searched at any depth; a table of paths and labels, whose paths are relative to it; a WebDataset
        archive (``.tar``, ``.tar.gz``), or a pattern such as ``s3://bucket/train-*.tar``. Archives in a folder are
        found, too.
    size : int
        Number of files in a shard; an archive is a shard of its own.

    Raises
    ------
    DataError
        If there are no images, or the source cannot be read.
    """
    files, path = open_file_system(source)
    with _reading(source):
        if "*" in source:
            names = sorted(files.glob(path))
        elif posixpath.splitext(path)[1].lower() in TABLES:
            return _table_shards(files, path, _prefix(source, path), size)
        else:
            names = sorted(files.find(path)) or ([path] if files.exists(path) else [])
    prefix = _prefix(source, path)
    archives = [prefix + name for name in names if name.endswith(_ARCHIVES)]
    images = [prefix + name for name in names if is_image_name(posixpath.basename(name))]
    shards = split_files(images, size=size)
    shards += [Shard(len(shards) + place, [address], is_archive=True) for place, address in enumerate(archives)]
    if not shards:
        raise DataError(f"{source} has no images and no .tar archives; check the address.")
    return shards


def _table_shards(files: Any, path: str, prefix: str, size: int) -> list[Shard]:  # noqa: ANN401 -- fsspec has no types
    """Divide the images that a table lists; relative paths start at its folder."""
    with tempfile.TemporaryDirectory(prefix="ddsh-table-") as folder:
        copy = Path(folder) / posixpath.basename(path)
        files.get_file(path, str(copy))
        rows = read_rows(copy)
        addresses = []
        for row in rows:
            text = os.path.relpath(row.path, folder) if row.path.is_relative_to(folder) else str(row.path)
            if _COLLAPSED.match(text):  # an address as a path has lost a slash
                addresses.append(_COLLAPSED.sub(r"\1://", text))
            else:
                addresses.append(prefix + posixpath.normpath(posixpath.join(posixpath.dirname(path), text)))
    return split_files(addresses, [list(row.labels) for row in rows], size)


def read_shard(shard: Shard) -> Iterator[ShardImage]:
    """Read the images of a shard, in order.

    A file that is missing or too large is returned with its error.

    Raises
    ------
    DataError
        If a file system fails, so that the shard can be read again later.
    """
    if shard.is_archive:
        yield from _read_archive(shard.addresses[0])
        return
    for place, address in enumerate(shard.addresses):
        labels = tuple(shard.labels[place]) if shard.labels else ()
        files, path = open_file_system(address)
        try:
            with _reading(address):
                n_bytes = files.info(path)["size"]
                if n_bytes is not None and n_bytes > MAX_BYTES:
                    raise BrokenImage(f"{address}: {n_bytes:,} bytes; the limit is {MAX_BYTES:,}.")
                data = files.cat_file(path)
                mtime_ns = 0 if "://" in address else Path(path).stat().st_mtime_ns
        except BrokenImage as error:
            yield ShardImage(address, None, str(error).removeprefix(f"{address}: "), labels=labels)
        else:
            yield ShardImage(address, data, "", mtime_ns, labels)


def _read_archive(address: str) -> Iterator[ShardImage]:
    """Read the samples of a WebDataset archive: files that are equal up to the first dot of their names.

    The label is in ``.cls``, the metadata in ``.json``. A damaged archive ends with an error of its own address.
    """
    files, path = open_file_system(address)
    key, sample = "", dict[str, tuple[str, bytes]]()
    with _reading(address), files.open(path, "rb") as opened:
        try:
            with tarfile.open(fileobj=opened, mode="r|*") as archive:
                for member in archive:
                    folder, name = posixpath.split(member.name)
                    if not member.isfile() or member.size > MAX_BYTES:
                        continue
                    stem, _, extension = name.partition(".")
                    if posixpath.join(folder, stem) != key:
                        yield from _sample_images(address, sample)
                        key, sample = posixpath.join(folder, stem), {}
                    content = archive.extractfile(member)
                    assert content is not None, "it is a file"
                    sample[extension.lower()] = (member.name, content.read())
        except (tarfile.TarError, EOFError) as error:
            yield from _sample_images(address, sample)
            yield ShardImage(address, None, f"is a damaged archive ({error})")
            return
    yield from _sample_images(address, sample)


def _sample_images(address: str, sample: dict[str, tuple[str, bytes]]) -> Iterator[ShardImage]:
    labels = tuple(filter(None, [sample["cls"][1].decode(errors="replace").strip()])) if "cls" in sample else ()
    metadata = "{}"
    if "json" in sample:
        try:
            content = json.loads(sample["json"][1])
        except ValueError:
            content = None
        metadata = json.dumps(content) if isinstance(content, dict) else "{}"
    for name, data in sample.values():
        if is_image_name(posixpath.basename(name)):
            yield ShardImage(f"{address}/{name}", data, labels=labels, metadata=metadata)


def open_file_system(address: str) -> tuple[Any, str]:
    """Return the file system of an address and the path in it.

    Raises
    ------
    DataError
        If there is none, or it cannot be reached.
    InvalidInput
        If the address has a password.
    """
    if urlsplit(address).password is not None:  # it would be written down with every image
        raise InvalidInput(
            "Leave the password out of the address; give it in the settings of fsspec or its environment."
        )
    try:
        files, path = fsspec.core.url_to_fs(address)
    except ImportError as error:  # such as "Install s3fs to access S3"
        raise DataError(f"{address} cannot be read; fsspec says: {error}.") from error
    except ValueError as error:
        raise DataError(f"{address} is no address ({error}).") from error
    except Exception as error:  # a client library raises what it likes
        raise DataError(f"{address} cannot be reached ({error_text(error)}); check the address.") from error
    return files, str(path)


def _prefix(source: str, path: str) -> str:
    """Return what comes before every path in an address: the protocol, and the host where there is one."""
    return source.rstrip("/").removesuffix(path.rstrip("/")) if "://" in source else ""


@contextmanager
def _reading(address: str) -> Iterator[None]:
    """Name the address in errors of a file system; a file that is missing or closed to us is a broken image."""
    try:
        yield
    except DdshError:
        raise
    except (FileNotFoundError, PermissionError, IsADirectoryError) as error:
        raise BrokenImage(f"{address}: cannot be read ({error.strerror or 'missing'}).") from error
    except Exception as error:
        if "://" not in address and not isinstance(error, OSError):
            raise
        # Client libraries of object storage have errors of their own, such as botocore's for missing credentials.
        raise DataError(f"{address} cannot be read ({error_text(error)}); run the same command to continue.") from error


def error_text(error: Exception) -> str:
    """Return the message of an error in one line, or its name if it has none."""
    return " ".join(str(error).split()).removesuffix(".") or type(error).__name__
