import pytest

from ddsh.report.paper import read_paper

TEN = ["ddsh", "dsh", "dpsh", "dhn", "cosdish", "sdh", "fasth", "lfh", "itq", "lsh"]
VARIANTS = ["ddsh0", "cosdish-linear", "cosdish-cnn", "ddsh-mac"]


@pytest.mark.parametrize(
    ("dataset", "label", "figures"),
    [
        ("cifar10", "ddsh", [0.769, 0.829, 0.835, 0.819]),
        ("cifar10", "lfh", [0.401, 0.605, 0.657, 0.700]),
        ("cifar10", "ddsh-mac", [0.412, 0.506, 0.528, 0.534]),
        ("svhn", "dsh", [0.370, 0.480, 0.523, 0.583]),
        ("svhn", "lsh", [0.107, 0.108, 0.109, 0.111]),
        ("nuswide", "dhn", [0.790, 0.810, 0.809, 0.818]),
        ("nuswide", "itq", [0.505, 0.504, 0.503, 0.505]),
    ],
)
def test_the_papers_figures_are_there(dataset, label, figures):
    paper = read_paper()
    assert [paper.map[dataset, label, n_bits] for n_bits in (12, 24, 32, 48)] == figures


def test_every_dataset_has_ten_methods_and_cifar10_the_variants_too():
    keys = read_paper().map.keys()
    for dataset, labels in {"cifar10": TEN + VARIANTS, "svhn": TEN, "nuswide": TEN}.items():
        assert {key for key in keys if key[0] == dataset} == {
            (dataset, label, n_bits) for label in labels for n_bits in (12, 24, 32, 48)
        }


def test_ddsh_is_the_papers_best_everywhere():
    paper = read_paper().map
    for (dataset, _, n_bits), figure in paper.items():
        assert figure <= paper[dataset, "ddsh", n_bits]


def test_labels_are_written_and_ordered_as_in_the_paper():
    paper = read_paper()
    assert paper.in_order(["mine", "lsh", "fasth", "ddsh", "another"]) == ["ddsh", "fasth", "lsh", "another", "mine"]
    assert [paper.name(label) for label in ("fasth", "cosdish-cnn", "mine")] == ["FastH", "COSDISH-CNN", "mine"]


def test_only_the_whole_protocol_of_a_dataset_of_the_paper_can_be_compared():
    paper = read_paper()
    assert paper.has_protocol("svhn", "svhn")
    assert not paper.has_protocol("cifar10", "cifar10-quick")
    assert not paper.has_protocol("sample", "sample")
