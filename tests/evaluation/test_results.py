import json

import numpy as np
import pytest

from ddsh.backbones.registry import build_network
from ddsh.datasets import Dataset, Protocol
from ddsh.errors import InvalidInput
from ddsh.evaluation import evaluate
from ddsh.images import FileImages
from ddsh.labels import as_labels
from ddsh.methods.ddsh import DDSH
from ddsh.methods.lsh import LSH
from ddsh.methods.training import Training


class _ListImages(FileImages):
    """Images that are at hand."""

    def __init__(self, images):
        super().__init__([])
        self.images = images

    def __len__(self):
        return len(self.images)

    def __getitem__(self, row):
        return self.images[row]


@pytest.fixture
def dataset(rng):
    labels = np.arange(60) % 3
    images = (rng.integers(0, 60, (60, 4, 4, 1)) + 60 * labels[:, None, None, None]).astype(np.uint8)
    return Dataset("toy", _ListImages(list(images)), as_labels(labels), ("a", "b", "c"))


def test_a_result_says_how_to_make_it_again(dataset):
    protocol = Protocol("toy", query_per_class=2, n_train=30, top_k=10)
    result = evaluate(LSH(8, seed=3), dataset, protocol, seed=7)
    content = json.loads(json.dumps(result.to_dict()))
    assert content["split"] == protocol.split(dataset, 7).fingerprint
    assert content["params"] == {"n_bits": 8, "seed": 3}
    assert (content["method"], content["n_bits"], content["dataset"]) == ("lsh", 8, "toy")
    assert (content["protocol"], content["network"], content["seed"]) == ("toy", "pixels", 7)
    assert content["scores"]["top_k"] == 10
    assert content["scores"]["map_low"] <= content["scores"]["map"] <= content["scores"]["map_high"]
    assert content["scores"]["n_query"] == 6
    assert content["versions"].keys() >= {"ddsh", "python", "numpy"}
    assert content["seconds"] > 0
    assert content["peak_memory"] > 10_000_000
    assert (content["weights"], content["image_size"], content["outputs"], content["examples"]) == (None,) * 4
    assert (content["commit"], content["machine"]) == (None, None)
    assert (content["bits"]["n_codes"], len(content["bits"]["share"])) == (54, 8)


class _Brightness:
    """Features that tell the classes apart, from a network that is none."""

    name, image_size, checksum = "brightness", 4, "c0ffee"

    def __init__(self):
        self.n_seen = []

    def extract(self, images):
        self.n_seen.append(len(images))
        means = np.array([images[row].mean() for row in range(len(images))])
        return np.eye(3, dtype=np.float32)[(means // 60).astype(int)]


def test_features_come_from_an_extractor_where_one_is_given(dataset):
    extractor = _Brightness()
    result = evaluate(LSH(16), dataset, Protocol("toy", query_per_class=2, n_train=30), seed=0, extractor=extractor)
    assert (result.network, result.image_size, result.weights) == ("brightness", 4, "c0ffee")
    assert extractor.n_seen == [30, 6, 54]
    assert result.scores.map == 1.0
    assert result.bits.n_distinct == 3


def test_examples_are_kept_where_they_are_asked_for(dataset):
    result = evaluate(LSH(8), dataset, Protocol("toy", query_per_class=2), seed=0, examples=True)
    content = json.loads(json.dumps(result.to_dict()))
    assert [query["label"] for query in content["examples"]["queries"]] == ["a", "b", "c"]
    assert content["examples"]["sheet"].startswith("data:image/jpeg;base64,")


def test_a_method_that_trains_a_network_says_which_and_what_it_puts_out(dataset):
    hasher = DDSH(8, network="small-grey", image_size=32, training=Training(1, 0.1), n_omega=10)
    result = evaluate(hasher, dataset, Protocol("toy", query_per_class=2), seed=0)
    assert (result.network, result.image_size, result.weights) == ("small-grey", 32, None)
    assert sum(result.outputs.counts) == 6 * 8
    hasher = DDSH(8, network="small-grey", training=Training(1, 0.1), n_omega=10)
    assert evaluate(hasher, dataset, Protocol("toy", query_per_class=2), seed=0).image_size == 28


def test_a_network_of_your_own_is_named_and_its_size_known(dataset):
    network = build_network("small-grey", image_size=24)
    hasher = DDSH(8, network=network, training=Training(1, 0.1), n_omega=10)
    result = evaluate(hasher, dataset, Protocol("toy", query_per_class=2), seed=0)
    assert result.network.startswith("ddsh.backbones.small.")
    assert (result.image_size, result.weights) == (24, None)


def test_the_same_seeds_give_the_same_scores(dataset):
    protocol = Protocol("toy", query_per_class=2)
    first, second = (evaluate(LSH(8), dataset, protocol, seed=1).scores.to_dict() for _ in range(2))
    assert first == second


def test_codes_of_separable_classes_score_far_above_chance(dataset):
    scores = evaluate(LSH(24), dataset, Protocol("toy", query_per_class=5), seed=0).scores
    assert scores.map > 0.6


def test_pixels_of_images_of_different_sizes_are_no_features(dataset):
    dataset.images.images[5] = np.zeros((9, 9, 1), np.uint8)
    with pytest.raises(InvalidInput, match="2 different sizes"):
        evaluate(LSH(8), dataset, Protocol("toy", query_per_class=2), seed=0)


def test_the_curve_by_rank_is_thinned_but_keeps_its_ends(dataset):
    scores = evaluate(LSH(8), dataset, Protocol("toy", query_per_class=2), seed=0).scores
    curve = scores.to_dict()["precision_recall"]["by_rank"]
    assert curve["rank"][0] == 1
    assert curve["rank"][-1] == scores.n_database
    assert curve["recall"][-1] == pytest.approx(1.0)
    assert len(curve["rank"]) == len(curve["precision"]) <= 200
