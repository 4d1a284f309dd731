"""Encoded shards as Parquet files."""

import fsspec
import numpy as np
import pytest

from ddsh import ImageSearch
from ddsh.codes import BinaryCodes
from ddsh.distributed.encoder import SCHEMA, ShardEncoder, read_model
from ddsh.distributed.parts import EncodingManifest, Parts, from_parquet, to_parquet
from ddsh.distributed.shards import find_shards
from ddsh.errors import ArtefactError
from ddsh.model import Model


def test_a_shard_has_the_codes_of_an_index(photos, model, tmp_path):
    (shard,) = find_shards(str(photos))
    table = from_parquet(to_parquet(ShardEncoder(read_model(model)).encode(shard)))
    assert table.schema.equals(SCHEMA)
    rows = table.to_pylist()
    (broken,) = [row for row in rows if row["error"]]
    assert broken["address"] == str(photos / "a" / "broken.jpg")
    assert broken["code"] is None
    with ImageSearch.create(tmp_path / "index", model) as search:
        search.add(photos)
        for row in rows:
            if row["error"] is None:
                number = search.id_of(row["address"])
                entry = search.entries([number])[0]
                assert (entry.sha256, entry.mtime_ns) == (row["sha256"].hex(), row["mtime_ns"])
                assert (entry.n_bytes, entry.width, entry.height) == (row["n_bytes"], row["width"], row["height"])
                own = BinaryCodes(np.frombuffer(row["code"], np.uint8)[None], 16)
                assert search.query(number, k=1)[0].distance == 0
                assert Model.load(model).encode([row["address"]]).packed.tolist() == own.packed.tolist()


@pytest.mark.parametrize("place", ["{tmp_path}/out", "memory://out"])
def test_finished_parts_are_found_again_and_other_jobs_are_refused(place, photos, model, tmp_path):
    shards = find_shards(str(photos), size=3)
    parts, loaded = Parts(place.format(tmp_path=tmp_path)), Model.load(model)
    manifest = EncodingManifest.of(loaded, shards)
    encoder = ShardEncoder(read_model(model))
    try:
        assert parts.begin(manifest) == set()
        for shard in (shards[0], shards[2]):
            parts.write(shard.number, encoder.encode(shard))
        assert parts.begin(manifest) == {0, 2}
        with pytest.raises(ArtefactError, match="begun with other images"):
            parts.begin(EncodingManifest.of(loaded, shards[:2]))
        with pytest.raises(ArtefactError, match="begun with another model"):
            parts.begin(manifest.model_copy(update={"fingerprint": "0" * 64}))
    finally:
        fsspec.filesystem("memory").rm("/", recursive=True)
