"""Encode images on Spark: what ``ddsh encode --ray`` does on Ray, with ``mapInPandas``.

Made-up photos stand in for yours; ``find_shards`` also takes ``s3://bucket/photos`` and WebDataset archives. The
cluster has two executors on this machine. It needs PySpark and Java 17.
"""

import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pandas as pd
import pyarrow as pa
from PIL import Image
from pyspark.sql import SparkSession

import ddsh
from ddsh.distributed.encoder import ShardEncoder, read_model
from ddsh.distributed.shards import Shard, find_shards

COLUMNS = (
    "address string, sha256 binary, n_bytes long, width int, height int, mtime_ns long, code binary, tiny binary,"
    " labels array<string>, metadata string, error string"
)
NULLABLE = {pa.int32(): pd.Int32Dtype(), pa.int64(): pd.Int64Dtype()}


def encode_on_spark(spark: SparkSession, model: Path, source: str, out: Path, shard_size: int) -> None:
    """Encode the images of a source into a folder of Parquet files, one task per shard."""
    model_files = spark.sparkContext.broadcast(read_model(model))

    def encode(batches: Iterator[pd.DataFrame]) -> Iterator[pd.DataFrame]:
        encoder = ShardEncoder(model_files.value, device="cpu")  # one model per task
        for batch in batches:
            for shard in batch["shard"]:
                yield encoder.encode(Shard.from_json(shard)).to_pandas(types_mapper=NULLABLE.get)

    shards = [(shard.to_json(),) for shard in find_shards(source, shard_size)]
    jobs = spark.sparkContext.parallelize(shards, len(shards)).toDF("shard string")
    jobs.mapInPandas(encode, COLUMNS).write.parquet(str(out))


if __name__ == "__main__":
    rng = np.random.default_rng(0)
    with TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "photos").mkdir()
        pixels = rng.integers(0, 256, (40, 24, 24, 3), np.uint8)
        for number, image in enumerate(pixels):
            Image.fromarray(image).save(folder / "photos" / f"{number:02}.png")
        model = ddsh.Model(ddsh.LSH(16)).fit(pixels)
        model.save(folder / "model")

        builder = SparkSession.builder.master("local-cluster[2,1,1024]").config("spark.ui.enabled", False)
        for variable in ("PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON"):
            builder = builder.config(f"spark.executorEnv.{variable}", sys.executable)
        spark = builder.config("spark.executorEnv.PYTHONPATH", ":".join(sys.path)).getOrCreate()
        encode_on_spark(spark, folder / "model", str(folder / "photos"), folder / "codes", shard_size=10)
        spark.stop()

        found = pd.read_parquet(folder / "codes").sort_values("address")
        print(len(found), "images encoded in", len(list((folder / "codes").glob("*.parquet"))), "shards")
        same = found["code"].tolist() == [code.tobytes() for code in model.encode(pixels).packed]
        print("the codes are those of this process:", same)
