"""Encoding many images on a cluster, shard by shard.

- :mod:`ddsh.distributed.shards`: divide folders, tables and WebDataset archives into shards.
- :mod:`ddsh.distributed.encoder`: encode a shard; any engine can call it, see ``examples/encode_on_spark.py``.
- :mod:`ddsh.distributed.parts`: Parquet files, one per shard, which are also the checkpoints of a job.
- :mod:`ddsh.distributed.ray`: run a job on Ray.
"""
