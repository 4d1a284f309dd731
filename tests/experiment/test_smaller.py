from dataclasses import asdict, replace

import numpy as np
import pytest

from ddsh.datasets import Dataset, Protocol, get_protocol
from ddsh.datasets.protocols import ValidationProtocol
from ddsh.experiment.smaller import SmallerProtocol
from ddsh.images import ArrayImages
from ddsh.labels import as_labels


@pytest.fixture
def dataset():
    parts = {"test": np.arange(200), "train": np.arange(200, 600), "extra": np.arange(600, 1000)}
    images = ArrayImages(lambda: np.zeros((1000, 1, 1, 1), np.uint8), 1000, "toy")
    return Dataset("toy", images, as_labels(np.arange(1000) % 10), tuple("abcdefghij"), parts)


def test_a_smaller_split_has_the_sizes_asked_for_and_keeps_the_sets_apart(dataset):
    whole = Protocol("toy", query_per_class=10, n_train=300, top_k=50)
    split = SmallerProtocol.of(whole, 30, 40, 200).split(dataset, 3)
    assert (len(split.query), len(split.train), len(split.database)) == (30, 40, 200)
    assert set(split.train) <= set(split.database)
    assert not set(split.query) & set(split.database)
    assert set(split.query) <= set(whole.split(dataset, 3).query)
    assert all((np.diff(rows) > 0).all() for rows in (split.query, split.train, split.database))
    assert (split.protocol.name, split.protocol.top_k) == ("toy-quick", 50)


def test_what_is_not_named_stays_as_it_is(dataset):
    whole = Protocol("toy", query_per_class=10, n_train=300)
    split = SmallerProtocol.of(whole, 10, None, None).split(dataset, 0)
    assert (len(split.query), len(split.train), len(split.database)) == (10, 300, 900)
    split = SmallerProtocol.of(whole, None, None, 5000).split(dataset, 0)
    assert (len(split.query), len(split.train), len(split.database)) == (100, 300, 900)


def test_training_images_stay_where_the_makers_put_them(dataset):
    whole = Protocol("toy", query_from="test", database_from="train", train_from="extra")
    split = SmallerProtocol.of(whole, None, 50, 100).split(dataset, 0)
    assert (len(split.train), split.train.min() >= 600) == (50, True)
    assert set(split.database) <= set(range(200, 600))


def test_a_smaller_validation_split_leaves_the_query_set_unseen(dataset):
    whole = get_protocol("cifar10")
    fewer = replace(whole, query_per_class=10, n_train=300)
    rule = SmallerProtocol.of(ValidationProtocol(**asdict(fewer)), 10, 50, 20)
    split = rule.split(dataset, 0)
    seen = set(fewer.split(dataset, 0).train)
    assert set(split.query) | set(split.train) | set(split.database) <= seen
    assert (len(split.query), len(split.train), len(split.database)) == (10, 50, 20)
    assert split.protocol.name == "cifar10-validation-quick"


def test_the_same_seed_gives_the_same_split_and_another_seed_another(dataset):
    rule = SmallerProtocol.of(Protocol("toy", query_per_class=10), 30, 40, 200)
    first, again, other = (rule.split(dataset, seed).fingerprint for seed in (0, 0, 1))
    assert first == again != other
    larger = SmallerProtocol.of(Protocol("toy", query_per_class=10), 31, 40, 200)
    assert larger.split(dataset, 0).fingerprint != first
