import json
import sys

import numpy as np
import pytest
from torch import nn
from torch.nn import functional

from ddsh.backbones import Backbone, CustomNetwork, build_network
from ddsh.datasets import Dataset, LearnedDatabaseProtocol, Protocol, load
from ddsh.errors import InvalidInput
from ddsh.evaluation import Result, evaluate, read_results, score
from ddsh.images import FileImages
from ddsh.labels import as_labels
from ddsh.methods.adsh import ADSH
from ddsh.methods.ddsh import DDSH
from ddsh.methods.lsh import LSH
from ddsh.methods.training import Training
from ddsh.model import Model


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
    content = json.loads(result.to_json())
    assert content["split"] == protocol.split(dataset, 7).fingerprint
    assert content["params"] == {"n_bits": 8, "seed": 3}
    assert (content["method"], content["n_bits"], content["dataset"]) == ("lsh", 8, "toy")
    assert (content["protocol"], result.network, content["seed"]) == ("toy", "pixels", 7)
    assert content["scores"]["top_k"] == 10
    assert content["scores"]["map_low"] <= content["scores"]["map"] <= content["scores"]["map_high"]
    assert content["scores"]["n_query"] == 6
    assert content["versions"].keys() >= {"ddsh", "python", "numpy"}
    assert content["seconds"] > 0
    assert content["peak_memory"] > 10_000_000
    assert not content.keys() & {"backbone", "outputs", "commit", "machine"}
    assert len(content["scores"]["average_precision"]) == 6
    assert result.examples is None
    assert (content["bits"]["n_codes"], len(content["bits"]["share"])) == (54, 8)


class _Brightness(nn.Module):
    """Features that tell the classes apart by brightness."""

    def forward(self, images):
        levels = (images.mean(dim=(1, 2, 3)) // 60).long()
        return functional.one_hot(levels, 5).float()


def test_features_come_from_a_backbone_where_one_is_given(dataset):
    network = CustomNetwork(_Brightness(), 8, mean=(0.0,), std=(1.0,))
    model = Model(LSH(16), Backbone(network))
    result = evaluate(model, dataset, Protocol("toy", query_per_class=2, n_train=30), seed=0)
    assert (result.network, result.backbone.image_size, result.backbone.weights) == (model.backbone.name, 8, None)
    assert result.scores.map == 1.0
    assert result.bits.n_distinct == 3


def test_a_learned_database_is_searched_by_the_codes_learned_for_it(dataset):
    protocol = LearnedDatabaseProtocol("toy", query_per_class=2)
    split = protocol.split(dataset, 0)
    training = Training(epochs=4, learning_rate=0.3, batch_size=20, momentum=0.9)
    method = ADSH(8, n_omega=30, n_inner=1, backbone=Backbone("small-grey", image_size=8), training=training)
    model = Model(method, look_bits=0)
    result = evaluate(model, dataset, protocol, seed=0)
    queries = model.encode([dataset.images[row] for row in split.query])
    labels = dataset.labels.take(split.query), dataset.labels.take(split.database)
    expected = score(queries, model.method.codes_, *labels)
    assert result.scores.map == expected.map
    assert result.bits.n_codes == len(split.database)
    with pytest.raises(InvalidInput, match=r"toy-learned-database.*lsh has none; train ADSH"):
        evaluate(LSH(8), dataset, protocol, seed=0)


def test_names_are_as_good_as_objects():
    result = evaluate("lsh", "sample", seed=3)
    same = evaluate(Model(LSH()), load("sample"), "sample", 3)
    assert (result.map, result.split, result.protocol) == (same.map, same.split, "sample")


def test_examples_are_files_of_their_own_beside_the_result(dataset, tmp_path):
    result = evaluate(LSH(8), dataset, Protocol("toy", query_per_class=2), seed=0, examples=True)
    result.write(tmp_path / "a.json")
    read = Result.read(tmp_path / "a.json").examples
    assert [query.label for query in read.queries] == ["a", "b", "c"]
    assert read.jpeg == (tmp_path / "examples" / "a.jpg").read_bytes() == result.examples.jpeg
    assert read_results(tmp_path)[1] == []


def test_the_result_of_a_deep_method_has_its_backbone_and_outputs(dataset):
    hasher = DDSH(8, backbone=Backbone("small-grey", image_size=32), training=Training(1, 0.1), n_omega=10)
    result = evaluate(hasher, dataset, Protocol("toy", query_per_class=2), seed=0)
    assert (result.network, result.backbone.image_size, result.backbone.weights) == ("small-grey", 32, None)
    assert sum(result.outputs.counts) == 6 * 8
    hasher = DDSH(8, backbone="small-grey", training=Training(1, 0.1), n_omega=10)
    assert evaluate(hasher, dataset, Protocol("toy", query_per_class=2), seed=0).backbone.image_size == 28


def test_the_result_of_a_custom_network_has_its_name_and_size(dataset):
    network = build_network("small-grey", image_size=24)
    hasher = DDSH(8, backbone=network, training=Training(1, 0.1), n_omega=10)
    result = evaluate(hasher, dataset, Protocol("toy", query_per_class=2), seed=0)
    assert result.network.startswith("ddsh.backbones.small.")
    assert (result.backbone.image_size, result.backbone.weights) == (24, None)


def test_the_same_seeds_give_the_same_scores(dataset):
    protocol = Protocol("toy", query_per_class=2)
    first, second = (evaluate(LSH(8), dataset, protocol, seed=1).model_dump(include={"scores"}) for _ in range(2))
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
    curve = scores.precision_recall.by_rank
    assert curve.rank[0] == 1
    assert curve.rank[-1] == scores.n_database
    assert curve.recall[-1] == pytest.approx(1.0)
    assert len(curve.rank) == len(curve.precision) <= 200


def test_the_parameters_of_a_preset_are_written_out(dataset):
    hasher = DDSH(8, preset="scratch", backbone="small-grey", training=Training(1, 0.1), n_omega=10)
    params = evaluate(hasher, dataset, Protocol("toy", query_per_class=2)).params
    assert (params["solver"], params["dissimilar"], params["n_inner"], params["context"]) == (
        "clustering",
        "minus-one",
        1,
        "before",
    )
    assert params["training"]["batch_size"] == 128
    assert None not in {params[name] for name in ("n_omega", "solver", "context", "dissimilar", "n_inner", "loss")}


def test_results_and_scores_are_shown_in_one_line_and_as_a_table(dataset):
    result = evaluate(LSH(8), dataset, Protocol("toy", query_per_class=2))
    assert repr(result) == str(result) == f"Result(lsh, 8 bits, toy: MAP {result.map:.4f})"
    assert repr(result.scores).startswith(f"Scores(map={result.map:.4f}, ties ")
    assert f"<td>MAP</td><td>{result.map:.4f}</td>" in result._repr_html_()


def test_the_map_is_recorded_every_so_many_epochs_and_changes_nothing(dataset, tmp_path):
    protocol = Protocol("toy", query_per_class=2, n_train=30)
    setting = {"backbone": Backbone("small-grey", image_size=8), "n_omega": 6, "training": Training(5, 0.1)}
    plain = evaluate(DDSH(8, **setting), dataset, protocol)
    model = Model(DDSH(8, **setting))
    scored = evaluate(model, dataset, protocol, every=2, checkpoints=tmp_path / "c")
    assert [record.map is not None for record in scored.history] == [False, True, False, True, False]
    assert [record.map for record in plain.history] == [None] * 5
    assert scored.map == plain.map
    last = evaluate(DDSH(8, **setting), dataset, protocol, every=5)
    assert last.history[-1].map == pytest.approx(last.map, abs=1e-12)
    assert evaluate(LSH(8), dataset, protocol, every=2).history == []


def test_a_model_with_look_bits_alone_has_no_scores(dataset):
    model = Model(None, "small", look_bits=16)
    with pytest.raises(InvalidInput, match="The model has look bits only, which have no scores"):
        evaluate(model, dataset, Protocol("toy", query_per_class=2), every=1)


def test_a_system_that_does_not_tell_its_peak_of_memory_gives_none(dataset, monkeypatch):
    monkeypatch.setitem(sys.modules, "resource", None)
    assert evaluate(LSH(8), dataset, Protocol("toy", query_per_class=2)).peak_memory is None
