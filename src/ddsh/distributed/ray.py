"""Encoding on Ray: one model per worker, shard by shard.

A shard counts as done when its part is written or its images are in the store. A worker that dies is replaced, and the
shard that it had is encoded again; a job that ends early continues with the shards that are missing. So nothing is
lost and nothing is there twice.
"""

import logging
import os
import socket
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa

from ddsh.datasets import Skipped
from ddsh.distributed.encoder import ShardEncoder, read_model
from ddsh.distributed.parts import EncodingManifest, Parts, from_parquet, to_parquet
from ddsh.distributed.shards import Shard
from ddsh.errors import ArtefactError, DdshError, MissingExtra, Unavailable
from ddsh.model import Model
from ddsh.search.address import open_store
from ddsh.search.store import Content, StoreWriter

try:
    import ray
    import ray.data
except ImportError as error:
    raise MissingExtra("Encoding on a cluster", "Ray Data", "ray") from error

__all__ = ["JobReport", "encode_to_parquet", "encode_to_store"]

_CONNECT_SECONDS = 10
_LOG = logging.getLogger(__name__)


@dataclass(frozen=True)
class JobReport:
    """Result of a job.

    Parameters
    ----------
    n_images : int
        Number of images that were encoded.
    n_known : int
        What was there before: images and archives of a store, shards in Parquet.
    broken : tuple of Skipped
        Files that cannot be read.
    """

    n_images: int
    n_known: int
    broken: tuple[Skipped, ...]


def encode_to_parquet(
    model: str | os.PathLike[str],
    shards: Sequence[Shard],
    out: str,
    *,
    cluster: str | None = None,
    device: str = "auto",
    on_progress: Callable[[int, int], None] | None = None,
) -> JobReport:
    """Encode shards into a folder of Parquet files; workers write them.

    Parameters
    ----------
    model : path
        Folder of a trained model.
    shards : sequence of Shard
        The images.
    out : str
        Folder or URL for the parts; what an earlier run of the same job left there is kept.
    cluster : str, optional
        Address of a Ray cluster; by default that of ``RAY_ADDRESS``, or a local one is started.
    device : str
        Where networks run; with ``cuda`` every worker gets a GPU.
    on_progress : callable, optional
        Called with the number of shards done and their total.
    """
    parts = Parts(out)
    done = parts.begin(EncodingManifest.of(Model.load(model, device="cpu"), shards))
    missing = [shard for shard in shards if shard.number not in done]
    n_images, broken = 0, list[Skipped]()
    for place, result in enumerate(_run(missing, read_model(Path(model)), out, cluster, device), len(done) + 1):
        n_images += result["n_images"]
        broken += map(Skipped, result["broken"], result["reasons"])
        if on_progress:
            on_progress(place, len(shards))
    return JobReport(n_images, len(done), tuple(broken))


def encode_to_store(
    address: str | os.PathLike[str],
    shards: Sequence[Shard],
    *,
    cluster: str | None = None,
    device: str = "auto",
    wait: float,
    on_progress: Callable[[int, int], None] | None = None,
) -> JobReport:
    """Encode shards into a store with its own model. Workers encode, and this process writes, one shard at a time.

    Images whose address is stored already are left out, even if they changed since. An object of another file system
    gets a path that begins with its protocol: ``/s3:/bucket/photo.jpg``.

    Parameters
    ----------
    address : path or str
        Address of a store; see :mod:`ddsh.search.address`.
    wait : float
        Seconds to wait for another writer.
    shards, cluster, device, on_progress
        See :func:`encode_to_parquet`.
    """
    n_images = n_known = 0
    broken: list[Skipped] = []
    with open_store(address, wait) as store, store.write() as writer:
        known = {file.path for file in writer.files()} | set(writer.roots())
        missing = []
        for shard in shards:
            new = [place for place, each in enumerate(shard.addresses) if _path_of(each) not in known]
            n_known += len(shard.addresses) - len(new)
            if new:
                labels = [shard.labels[place] for place in new] if shard.labels else []
                missing.append(replace(shard, addresses=[shard.addresses[place] for place in new], labels=labels))
        n_done = len(shards) - len(missing)
        results = _run(missing, read_model(store.model_folder), None, cluster, device)
        for place, (shard, result) in enumerate(zip(missing, results, strict=True), n_done + 1):
            broken += map(Skipped, result["broken"], result["reasons"])
            rows = [row for row in from_parquet(result["table"]).to_pylist() if row["error"] is None]
            new_rows = [row for row in rows if _path_of(row["address"]) not in known]
            n_known, n_images = n_known + len(rows) - len(new_rows), n_images + len(new_rows)
            with writer.transaction():
                for row in new_rows:
                    _add(writer, row)
                if shard.is_archive:  # so that a next run knows that it is done
                    writer.add_root(_path_of(shard.addresses[0]))
            if on_progress:
                on_progress(place, len(shards))
    return JobReport(n_images, n_known, tuple(broken))


def _path_of(address: str) -> Path:
    """Return the absolute path that stands for an address in a store."""
    return Path(f"/{address}" if "://" in address else address)


def _add(writer: StoreWriter, row: Mapping[str, Any]) -> None:
    """Add the entry of an encoded image."""
    if not writer.has_content(row["sha256"]):
        writer.put_content(Content(*(row[name] for name in ("sha256", "n_bytes", "width", "height", "code", "tiny"))))
    number = writer.add(_path_of(row["address"]), row["sha256"], row["mtime_ns"])
    if row["labels"]:
        writer.set_labels(number, row["labels"])
    if row["metadata"] != "{}":
        writer.set_metadata(number, row["metadata"])


class _ShardWorker:
    """An actor of Ray Data: encodes a shard, and writes its part or returns it."""

    def __init__(self, model_files: Any, out: str | None, device: str) -> None:  # noqa: ANN401 -- an ObjectRef
        self._encoder = ShardEncoder(ray.get(model_files), device)
        self._parts = None if out is None else Parts(out)

    def __call__(self, row: dict[str, Any]) -> dict[str, Any]:
        """Return the result of a shard; an error of the input comes back as text, because Ray would wrap it."""
        shard = Shard.from_json(row["shard"])
        try:
            table = self._encoder.encode(shard)
            if self._parts is not None:
                self._parts.write(shard.number, table)
        except DdshError as error:
            return {"failed": str(error), "n_images": 0, "broken": [], "reasons": [], "table": b""}
        broken = table.filter(pa.compute.is_valid(table["error"]))
        return {
            "failed": "",
            "n_images": len(table) - len(broken),
            "broken": broken["address"].to_pylist(),
            "reasons": broken["error"].to_pylist(),
            "table": to_parquet(table) if self._parts is None else b"",
        }


def _run(
    shards: Sequence[Shard], model_files: Mapping[str, bytes], out: str | None, cluster: str | None, device: str
) -> Iterator[dict[str, Any]]:
    """Yield the result of each shard, in order."""
    if not shards:
        return
    with _joined(cluster):
        context = ray.data.DataContext.get_current()
        context.enable_progress_bars = False
        logging.getLogger("ray.data").setLevel(logging.ERROR)  # it warns of that
        context.execution_options.preserve_order = True
        kind = "GPU" if device.startswith("cuda") else "CPU"
        n_workers = max(1, min(len(shards), int(ray.cluster_resources().get(kind, 1))))
        _LOG.debug("%d shards on %d workers", len(shards), n_workers)
        jobs = ray.data.from_items([{"shard": shard.to_json()} for shard in shards], override_num_blocks=len(shards))
        results = jobs.map(
            _ShardWorker,
            fn_constructor_args=(ray.put(dict(model_files)), out, device),
            compute=ray.data.ActorPoolStrategy(size=n_workers),
            num_cpus=1,
            num_gpus=1 if kind == "GPU" else 0,
        )
        for result in results.iter_rows():
            if result["failed"]:
                raise ArtefactError(result["failed"])
            yield result


@contextmanager
def _joined(cluster: str | None) -> Iterator[None]:
    """Connect to a cluster, unless the program has done so, or start one here; nothing is sent to the makers of Ray."""
    if ray.is_initialized():
        yield
        return
    if cluster is not None and ":" in cluster:  # Ray itself keeps trying for minutes
        host, _, port = cluster.rpartition("/")[2].rpartition(":")
        try:
            socket.create_connection((host, int(port)), timeout=_CONNECT_SECONDS).close()
        except OSError as error:
            raise Unavailable(f"The Ray cluster {cluster} cannot be reached ({error}); check its address.") from error
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    os.environ.setdefault("RAY_BACKEND_LOG_LEVEL", "fatal")
    try:
        ray.init(cluster, include_dashboard=False, log_to_driver=False, logging_level=logging.ERROR)
    except (ConnectionError, ValueError, RuntimeError) as error:
        reason = " ".join(str(error).split())[:200]
        raise Unavailable(f"The Ray cluster cannot be used ({reason}); check its address, or start one.") from error
    try:
        yield
    finally:
        ray.shutdown()
