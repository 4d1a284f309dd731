"""Encoding many images on a cluster, shard by shard.

- :mod:`ddsh.distributed.shards`: divide folders, tables and WebDataset archives into shards.
- :mod:`ddsh.distributed.encoder`: encode a shard; any engine can call it, see ``examples/encode_on_spark.py``.
- :mod:`ddsh.distributed.parts`: Parquet files, one per shard, which are also the checkpoints of a job.
- :mod:`ddsh.distributed.ray`: run a job on Ray.
"""

from ddsh.errors import MissingExtra

__all__: list[str] = []

try:
    import fsspec  # noqa: F401
    import pyarrow  # noqa: F401
except ImportError as error:
    raise MissingExtra("Encoding on a cluster", "Ray Data", "ray") from error
