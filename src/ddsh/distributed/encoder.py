"""Encoding the images of a shard."""

import hashlib
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa

from ddsh.distributed.shards import Shard, ShardImage, read_shard
from ddsh.errors import BrokenImage
from ddsh.images import decode_image
from ddsh.memory import reuse_freed_memory
from ddsh.model import Model
from ddsh.search.duplicates import tiny_copy
from ddsh.search.indexer import BATCH, pack_codes

__all__ = ["SCHEMA", "ShardEncoder", "read_model"]

SCHEMA = pa.schema(
    {
        "address": pa.string(),
        "sha256": pa.binary(),
        "n_bytes": pa.int64(),
        "width": pa.int32(),
        "height": pa.int32(),
        "mtime_ns": pa.int64(),
        "code": pa.binary(),
        "tiny": pa.binary(),
        "labels": pa.list_(pa.string()),
        "metadata": pa.string(),
        "error": pa.string(),
    }
)
"""Columns of encoded images.

``code`` has the packed label bits, then the packed look bits. An image that cannot be read has an ``error`` and nothing
else. The other columns are those of an entry of a store.
"""


def read_model(folder: Path) -> dict[str, bytes]:
    """Return the files of a saved model, to send them to workers that cannot see the folder."""
    paths = sorted(path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): path.read_bytes() for path in paths}


class ShardEncoder:
    """Encodes shards with a model; a worker has one of these.

    Parameters
    ----------
    model_files : mapping
        Content of the files of the model, from :func:`read_model`.
    device : str
        Where its network runs.
    """

    def __init__(self, model_files: Mapping[str, bytes], device: str = "auto") -> None:
        reuse_freed_memory()
        with tempfile.TemporaryDirectory(prefix="ddsh-model-") as folder:
            for name, data in model_files.items():
                path = Path(folder) / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(data)
            self._model = Model.load(folder, device=device)

    def encode(self, shard: Shard) -> pa.Table:
        """Return a row for each image, in order; the same shard always gives the same table."""
        rows: list[dict[str, Any]] = []
        batch: list[tuple[dict[str, Any], Any]] = []
        for row, pixels in map(self._read, read_shard(shard)):
            rows.append(row)
            if pixels is not None:
                batch.append((row, pixels))
            if len(batch) == BATCH:
                self._encode(batch)
                batch = []
        self._encode(batch)
        return pa.Table.from_pylist(rows, SCHEMA)

    def _read(self, image: ShardImage) -> tuple[dict[str, Any], Any]:
        """Return a row without a code, and pixels prepared for the model; None if there are none."""
        row: dict[str, Any] = dict.fromkeys(SCHEMA.names)
        row |= {"address": image.address, "labels": list(image.labels), "metadata": image.metadata}
        if image.data is None:
            return row | {"error": image.error}, None
        try:
            pixels = decode_image(image.data)
        except BrokenImage as error:
            return row | {"error": str(error)}, None
        row |= {
            "sha256": hashlib.sha256(image.data).digest(),
            "n_bytes": len(image.data),
            "width": pixels.shape[1],
            "height": pixels.shape[0],
            "mtime_ns": image.mtime_ns,
            "tiny": tiny_copy(pixels),
        }
        return row, self._model.prepare(pixels)

    def _encode(self, batch: list[tuple[dict[str, Any], Any]]) -> None:
        """Set the codes of a batch of rows."""
        if batch:
            codes = self._model.encode_pair([pixels for _, pixels in batch])
            for (row, _), code in zip(batch, pack_codes(codes), strict=True):
                row["code"] = code.tobytes()
