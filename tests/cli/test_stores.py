"""ddsh store, and the commands that take the address of a database."""

import json

import numpy as np
import pytest

from ddsh import ImageSearch
from ddsh.methods.lsh import LSH
from ddsh.model import Model


@pytest.fixture
def index(tmp_path):
    pixels = np.random.default_rng(0).integers(0, 256, (30, 12, 12, 3), np.uint8)
    Model(LSH(n_bits=16)).fit(pixels).save(tmp_path / "model")
    with ImageSearch.create(tmp_path / "index", tmp_path / "model") as search:
        search.add(pixels[:8], labels=["red", "blue"] * 4)
    return tmp_path / "index"


def test_an_index_moves_to_a_database_and_is_searched_there(ddsh, index, postgres, tmp_path):
    address = postgres.replace("postgres:@", "postgres@")
    outcome = ddsh("store", "copy", index, address)
    assert (outcome.returncode, outcome.stdout) == (0, f"8 images copied, and all are equal: {address}\n")
    assert ddsh("store", "copy", index, address).stdout.startswith("0 images copied")
    found = []
    for place in (index, address):
        hits = json.loads(ddsh("search", "--store", place, "1", "--json").stdout)[0]["hits"]
        found.append([(hit["id"], hit["distance"], hit["labels"]) for hit in hits])
    assert found[0] == found[1]
    groups = [
        ddsh("duplicates", f"--store={place}", "--radius", "16", "--tolerance", "99").stdout
        for place in (index, address)
    ]
    assert groups[0].count("\n") == groups[1].count("\n") > 1
    assert ddsh("index", "remove", address, "8").stdout.startswith("1 images removed, 7 left")
    assert ddsh("index", "verify", address).stdout.startswith("7 images, all intact")


def test_a_wrong_address_is_one_line(ddsh):
    for address, reason in {
        "mysql://localhost/x": "mysql:// is no store; use a folder, postgresql://... or milvus://...",
        "postgresql://me@127.0.0.1:1/x": "Connection refused",
        "milvus://127.0.0.1:1": "milvus://127.0.0.1:1 cannot be used",
        "milvus://": "write milvus://host:port or milvus://file.db",
    }.items():
        outcome = ddsh("search", address, "1")
        assert (outcome.returncode, outcome.stderr.count("\n")) == (2, 1)
        assert reason in outcome.stderr
