"""Encoded images in Parquet: one file per shard, and its checkpoint."""

import hashlib
import io
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pyarrow as pa
import pyarrow.parquet

from ddsh.distributed.shards import Shard, error_text, open_file_system
from ddsh.errors import ArtefactError, DdshError
from ddsh.model import Model
from ddsh.storage import Manifest, atomic_write

__all__ = ["EncodingManifest", "Parts", "from_parquet", "to_parquet"]

MANIFEST = "encoding.json"


class EncodingManifest(Manifest):
    """What a folder of parts was made of; a job with another model or other images is refused.

    Attributes
    ----------
    fingerprint : str
        Fingerprint of the model and its preprocessing.
    n_bits, look_bits : int
        Number of label bits and of look bits of a code.
    n_shards : int
        Number of parts when the job is done.
    shards : str
        Checksum of the addresses and labels of all shards.
    """

    format_version = 1
    fingerprint: str
    n_bits: int
    look_bits: int
    n_shards: int
    shards: str

    @classmethod
    def of(cls, model: Model, shards: Sequence[Shard]) -> "EncodingManifest":
        """Return the manifest of a job."""
        digest = hashlib.sha256()
        for shard in shards:
            digest.update(shard.to_json().encode())
        return cls(
            fingerprint=model.fingerprint,
            n_bits=model.n_bits,
            look_bits=model.look_bits,
            n_shards=len(shards),
            shards=digest.hexdigest(),
        )


class Parts:
    """A folder of Parquet files, local or in object storage.

    Parameters
    ----------
    address : str
        A path, or a URL that fsspec knows.
    """

    def __init__(self, address: str) -> None:
        self.address = address
        self._files, self._folder = open_file_system(address)

    def begin(self, manifest: EncodingManifest) -> set[int]:
        """Write the manifest, or compare it with the one that is there, and return the numbers of finished shards.

        Raises
        ------
        ArtefactError
            If the folder has the codes of another model or of other images.
        """
        path = f"{self._folder}/{MANIFEST}"
        with self._named_errors():
            if not self._files.exists(path):
                self._write(MANIFEST, manifest.to_json().encode())
                return set()
            found = EncodingManifest.from_json(self._files.cat_file(path), f"{self.address}/{MANIFEST}")
            if found != manifest:
                what = "other images" if found.fingerprint == manifest.fingerprint else "another model"
                raise ArtefactError(f"{self.address} was begun with {what}; choose another folder for --out.")
            names = (str(path).rpartition("/")[2] for path in self._files.ls(self._folder, detail=False))
            return {int(name[5:-8]) for name in names if name.startswith("part-") and name.endswith(".parquet")}

    def write(self, number: int, table: pa.Table) -> None:
        """Write the part of a shard; a part is there whole or not at all."""
        self._write(f"part-{number:06d}.parquet", to_parquet(table))

    def _write(self, name: str, data: bytes) -> None:
        """Replace a local file, or upload an object; object storage shows an upload when it is complete."""
        if "://" not in self.address:
            with atomic_write(f"{self._folder}/{name}") as file:
                file.write(data)
            return
        with self._named_errors():
            self._files.makedirs(self._folder, exist_ok=True)
            self._files.pipe_file(f"{self._folder}/{name}", data)

    @contextmanager
    def _named_errors(self) -> Iterator[None]:
        """Name the address in errors of its file system."""
        try:
            yield
        except DdshError:
            raise
        except Exception as error:
            if "://" not in self.address and not isinstance(error, OSError):
                raise
            raise ArtefactError(
                f"{self.address} cannot be used ({error_text(error)}); run the same command to continue."
            ) from error


def to_parquet(table: pa.Table) -> bytes:
    """Return a table as the content of a Parquet file; equal tables give equal files."""
    buffer = io.BytesIO()
    pa.parquet.write_table(table, buffer, compression="zstd")
    return buffer.getvalue()


def from_parquet(data: Any) -> pa.Table:  # noqa: ANN401 -- bytes, or what Ray made of them
    """Return the table that :func:`to_parquet` wrote."""
    return pa.parquet.read_table(io.BytesIO(bytes(data)))
