from dataclasses import asdict, replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ddsh.datasets import (
    PROTOCOLS,
    Dataset,
    Protocol,
    SubsampledProtocol,
    ValidationProtocol,
    get_protocol,
    load,
)
from ddsh.errors import DataError, InvalidInput, UnknownName
from ddsh.images import ArrayImages
from ddsh.labels import SingleLabels, as_labels


def _dataset(labels, parts=None):
    labels = as_labels(labels)
    n = len(labels)
    images = ArrayImages(lambda: np.zeros((n, 2, 2, 1), np.uint8), n, "zeros")
    names = tuple(f"class {label}" for label in range(int(max(labels.classes(), default=0)) + 1))
    return Dataset("toy", images, labels, names, parts or {})


def _check(split, n_rows):
    for rows in (split.query, split.train, split.database):
        assert np.array_equal(rows, np.unique(rows))
        assert np.isin(rows, np.arange(n_rows)).all()
    assert not set(split.query) & (set(split.database) | set(split.train))


@given(
    st.lists(st.integers(0, 3), min_size=20, max_size=60).filter(
        lambda labels: min(map(labels.count, set(labels))) > 3
    ),
    st.integers(0, 2**32),
    st.booleans(),
)
def test_queries_are_drawn_per_class_and_train_from_the_database(labels, seed, stratified):
    dataset = _dataset(labels)
    protocol = Protocol("toy", query_per_class=2, n_train=8, stratified=stratified)
    split = protocol.split(dataset, seed)
    _check(split, len(labels))
    values = np.array(labels)
    assert np.unique(values[split.query], return_counts=True)[1].tolist() == [2] * len(set(labels))
    assert len(split.query) + len(split.database) == len(labels)
    assert set(split.train) <= set(split.database)
    assert len(split.train) == 8
    if stratified:
        share = np.bincount(values[split.database], minlength=4) * 8 / len(split.database)
        assert np.abs(np.bincount(values[split.train], minlength=4) - share).max() <= 4
        assert (np.bincount(values[split.train], minlength=4) >= np.floor(share)).all()


@given(st.integers(0, 1000))
def test_many_labels_are_drawn_for_rare_classes_first(seed):
    rng = np.random.default_rng(seed)
    matrix = (rng.random((80, 4)) < (0.15, 0.3, 0.5, 0.7)).astype(int)
    matrix[:16] = np.tile(np.eye(4, dtype=int), (4, 1))
    dataset = _dataset(matrix)
    split = Protocol("toy", query_per_class=3, n_train=30).split(dataset, seed)
    _check(split, 80)
    assert len(split.query) == 12
    assert (matrix[split.query].sum(axis=0) >= 3).all()
    floor = np.floor(matrix[split.database].sum(axis=0) * 30 / len(split.database))
    assert matrix[split.train].sum(axis=0)[0] >= floor[0]
    assert len(split.train) == 30


def test_the_same_seed_gives_the_same_split_and_another_seed_another():
    dataset = _dataset(np.arange(200) % 4)
    protocol = Protocol("toy", query_per_class=5, n_train=20)
    first, second, other = (protocol.split(dataset, seed) for seed in (3, 3, 4))
    assert first.fingerprint == second.fingerprint
    assert np.array_equal(first.query, second.query)
    assert first.fingerprint != other.fingerprint
    assert not np.array_equal(first.query, other.query)


def test_the_fingerprint_changes_with_protocol_seed_and_rows():
    dataset = _dataset(np.arange(200) % 4)
    splits = [
        Protocol("toy", query_per_class=5).split(dataset, 0),
        Protocol("toy", query_per_class=5).split(dataset, 1),
        Protocol("other", query_per_class=5).split(dataset, 0),
        Protocol("toy", query_per_class=5, top_k=10).split(dataset, 0),
        Protocol("toy", query_per_class=5).split(_dataset(np.arange(201) % 4), 0),
    ]
    assert len({split.fingerprint for split in splits}) == len(splits)


def test_the_fingerprint_of_the_sample_is_the_same_on_every_machine():
    sample = load("sample")
    split = get_protocol("sample").split(sample, 0)
    assert split.fingerprint.startswith("cb4eedb4393d2c0b")
    assert [len(split.query), len(split.train), len(split.database)] == [1000, 5000, 10_000]


def test_given_parts_are_taken_as_they_are():
    rows = {"query": np.array([5, 1]), "train": np.array([2, 3]), "database": np.array([2, 4])}
    split = get_protocol("given").split(_dataset([0] * 6, rows), 0)
    assert [split.query.tolist(), split.train.tolist(), split.database.tolist()] == [[1, 5], [2, 3], [2, 4]]
    del rows["train"]
    assert get_protocol("given").split(_dataset([0] * 6, rows), 0).train.tolist() == [2, 4]


def test_a_query_in_another_part_never_reaches_train_or_database():
    rows = {"query": np.array([0, 1]), "train": np.array([1, 2]), "database": np.array([0, 2, 3])}
    _check(get_protocol("given").split(_dataset([0] * 4, rows), 0), 4)


def test_svhn_takes_queries_from_test_and_the_whole_training_file_as_database():
    labels = np.concatenate([np.arange(6000) % 10, np.arange(2000) % 10])
    rows = {"train": np.arange(6000), "test": np.arange(6000, 8000)}
    split = get_protocol("svhn").split(_dataset(labels, rows), 1)
    assert np.array_equal(split.database, rows["train"])
    assert set(split.query) <= set(rows["test"])
    assert np.bincount(labels[split.query]).tolist() == [100] * 10
    assert len(split.train) == 5000


def test_nuswide_draws_queries_at_random_and_scores_the_top_5000(rng):
    matrix = (rng.random((20_000, 10)) < 0.2).astype(int)
    split = get_protocol("nuswide").split(_dataset(matrix), 0)
    assert [len(split.query), len(split.train), len(split.database)] == [1867, 5000, 18_133]
    assert split.protocol.top_k == 5000


@pytest.mark.parametrize(
    ("protocol", "labels", "message"),
    [
        (Protocol("p", query_per_class=3), [0, 0, 0, 0, 1, 1, 1], "class 'class 1' has 3 images .* 3 queries and one"),
        (Protocol("p", n_query=4), [0, 1, 2, 3], "4 queries asked for, 4 images"),
        (Protocol("p", query_per_class=1, n_train=9), [0, 0, 0], "9 training images asked for, 2 to draw from"),
        (Protocol("p", query_from="test"), [0, 1], "no part 'test'"),
        (Protocol("p", query_per_class=1), np.zeros((3, 2), int), "no labelled images"),
    ],
)
def test_too_few_images_get_a_clear_error(protocol, labels, message):
    with pytest.raises(DataError, match=message) as caught:
        protocol.split(_dataset(labels), 0)
    assert "\n" not in str(caught.value)


def test_a_class_whose_images_all_became_queries_is_refused():
    matrix = np.array([[1, 1]] * 3 + [[0, 1]] * 2)
    problems = []
    for seed in range(20):
        try:
            split = Protocol("p", query_per_class=2).split(_dataset(matrix), seed)
        except DataError as error:
            problems.append(str(error))
        else:
            assert (matrix[split.database].sum(axis=0) > 0).all()
    assert any("all 3 images of class 'class 0' became queries" in problem for problem in problems)


def test_a_class_that_is_missing_where_queries_come_from_is_refused():
    rows = {"test": np.arange(4), "train": np.arange(4, 8)}
    protocol = Protocol("p", query_per_class=1, query_from="test", database_from="train")
    with pytest.raises(DataError, match="class 'class 1' has 0 images"):
        protocol.split(_dataset([0, 0, 0, 0, 0, 1, 1, 1], rows), 0)


def test_a_database_without_images_is_refused():
    rows = {"query": np.array([0, 1]), "database": np.array([0, 1])}
    with pytest.raises(DataError, match="no image for the database"):
        get_protocol("given").split(_dataset([0, 0], rows), 0)


@pytest.mark.parametrize(
    "options", [{}, {"n_query": 0}, {"query_per_class": 1, "n_query": 1}, {"n_query": 1, "n_train": -1}]
)
def test_a_protocol_that_makes_no_sense_is_refused(options):
    with pytest.raises(InvalidInput):
        Protocol("p", **options)


def test_a_negative_seed_is_refused():
    with pytest.raises(InvalidInput, match="seed"):
        PROTOCOLS["own"].split(_dataset([0] * 20), -1)


def _partly_labelled(values):
    values = np.array(values)
    labels = SingleLabels(values, missing=-1)
    images = ArrayImages(lambda: np.zeros((len(values), 2, 2, 1), np.uint8), len(values), "zeros")
    rows = np.flatnonzero(values == -1)
    names = tuple(f"class {label}" for label in range(values.max() + 1))
    return Dataset("toy", images, labels, names, unlabelled=rows)


@given(st.lists(st.integers(-1, 3), min_size=2, max_size=80), st.integers(0, 100), st.integers(1, 12))
def test_own_images_are_split_whatever_the_size_of_their_classes(values, seed, per_class):
    counts = np.bincount([value for value in values if value >= 0], minlength=4)
    dataset = _partly_labelled(values)
    for protocol, share in (
        (PROTOCOLS["own"], 0.25),
        (PROTOCOLS["own"].with_options(query_per_class=per_class), 1.0),
    ):
        if counts.max() < 2:
            with pytest.raises(DataError):
                protocol.split(dataset, seed)
            continue
        split = protocol.split(dataset, seed)
        _check(split, len(values))
        assert not np.isin(np.concatenate([split.query, split.database]), dataset.unlabelled).any()
        assert len(split.query) + len(split.database) == counts.sum()
        drawn = np.bincount(np.array(values)[split.query], minlength=4)
        for count, found in zip(counts, drawn, strict=True):
            most = max(1, int(share * count)) if count > 1 else 0
            assert found == min(protocol.query_per_class, most, max(0, count - 1))


@given(st.integers(40, 60), st.integers(0, 100))
def test_large_classes_are_split_as_without_adapting(size, seed):
    dataset = _dataset(np.arange(3 * size) % 3)
    fixed = replace(PROTOCOLS["own"], query_share=None).split(dataset, seed)
    adapting = PROTOCOLS["own"].split(dataset, seed)
    assert fixed.fingerprint == adapting.fingerprint


@pytest.mark.parametrize("name", ["own", "own-validation", "own-held-out-30"])
def test_unlabelled_images_do_not_change_the_split_of_the_others(name):
    values = np.arange(150) % 3
    alone = get_protocol(name).split(_dataset(values), 0)
    more = get_protocol(name).split(_partly_labelled([*values, -1, -1]), 0)
    assert alone.fingerprint == more.fingerprint


def test_unlabelled_images_are_left_out_of_predefined_parts():
    dataset = replace(
        _partly_labelled([0, 1, 0, 1, -1, -1]), parts={"query": np.array([0, 4]), "database": np.array([1, 2, 3, 5])}
    )
    split = PROTOCOLS["given"].split(dataset, 0)
    assert (split.query.tolist(), split.database.tolist()) == ([0], [1, 2, 3])


def test_an_image_of_a_class_of_one_is_never_a_query():
    matrix = np.zeros((40, 2), int)
    matrix[:, 0] = 1
    matrix[7, 1] = 1
    for seed in range(20):
        assert 7 not in PROTOCOLS["own"].split(_dataset(matrix), seed).query


def test_options_change_a_protocol_and_its_name():
    own, paper = PROTOCOLS["own"], PROTOCOLS["cifar10"]
    assert own.with_options() is own
    assert own.with_options(n_query=5) == Protocol("own-custom", n_query=5, query_share=1.0)
    assert paper.with_options(query_per_class=7, n_train=50) == Protocol(
        "cifar10-custom", query_per_class=7, n_train=50
    )
    assert own.with_options(part="train").train_from == "train"
    with pytest.raises(InvalidInput, match="not both"):
        own.with_options(query_per_class=1, n_query=1)


@pytest.mark.parametrize("share", [0, -1, 1.5])
def test_a_share_of_queries_is_above_0_and_at_most_1(share):
    with pytest.raises(InvalidInput, match="query_share"):
        Protocol("p", query_per_class=1, query_share=share)


def test_an_unknown_protocol_offers_the_nearest():
    with pytest.raises(UnknownName, match="Did you mean 'cifar10'"):
        get_protocol("cifar")


GOLDEN = {
    "cifar10": (1000, 5000, 59_000, "b7dfa697e1110df5"),
    "svhn": (1000, 5000, 73_257, "f6ee91f91dfbe8d6"),
}


@pytest.mark.parametrize("name", sorted(GOLDEN))
def test_the_real_datasets_split_the_same_in_two_runs(data_root, name):
    splits = []
    for _ in range(2):
        dataset = load(name, root=data_root)
        splits.append(get_protocol(name).split(dataset, 0))
    *sizes, start = GOLDEN[name]
    for split in splits:
        assert [len(split.query), len(split.train), len(split.database)] == sizes
        assert split.fingerprint.startswith(start)
    labels = dataset.labels.take(splits[0].query).counts()
    assert labels == dict.fromkeys(range(10), 100)
    images = np.stack(list(dataset.images.take(splits[0].query)))
    assert images.shape == (1000, 32, 32, 3)
    assert 90 < images.mean() < 140


def test_a_validation_protocol_divides_the_training_images_alone():
    dataset = load("sample")
    whole = get_protocol("sample").split(dataset, 1)
    found = get_protocol("sample-validation").split(dataset, 1)
    assert found.fingerprint == whole.validation(dataset).fingerprint
    assert found.protocol.name == "sample-validation"
    rows = np.concatenate([found.query, found.train, found.database])
    assert np.array_equal(np.sort(rows), whole.train)
    with pytest.raises(UnknownName, match="sampel"):
        get_protocol("sampel-validation")


@pytest.fixture
def toy():
    parts = {"test": np.arange(200), "train": np.arange(200, 600), "extra": np.arange(600, 1000)}
    images = ArrayImages(lambda: np.zeros((1000, 1, 1, 1), np.uint8), 1000, "toy")
    return Dataset("toy", images, as_labels(np.arange(1000) % 10), tuple("abcdefghij"), parts)


def test_a_subsampled_split_has_the_sizes_asked_for_and_keeps_the_sets_apart(toy):
    whole = Protocol("toy", query_per_class=10, n_train=300, top_k=50)
    split = SubsampledProtocol.of(whole, 30, 40, 200).split(toy, 3)
    assert (len(split.query), len(split.train), len(split.database)) == (30, 40, 200)
    assert set(split.train) <= set(split.database)
    assert not set(split.query) & set(split.database)
    assert set(split.query) <= set(whole.split(toy, 3).query)
    assert all((np.diff(rows) > 0).all() for rows in (split.query, split.train, split.database))
    assert (split.protocol.name, split.protocol.top_k) == ("toy-quick", 50)


def test_sets_without_a_size_are_not_subsampled(toy):
    whole = Protocol("toy", query_per_class=10, n_train=300)
    split = SubsampledProtocol.of(whole, 10, None, None).split(toy, 0)
    assert (len(split.query), len(split.train), len(split.database)) == (10, 300, 900)
    split = SubsampledProtocol.of(whole, None, None, 5000).split(toy, 0)
    assert (len(split.query), len(split.train), len(split.database)) == (100, 300, 900)


def test_subsampled_training_images_come_from_the_training_part(toy):
    whole = Protocol("toy", query_from="test", database_from="train", train_from="extra")
    split = SubsampledProtocol.of(whole, None, 50, 100).split(toy, 0)
    assert (len(split.train), split.train.min() >= 600) == (50, True)
    assert set(split.database) <= set(range(200, 600))


def test_a_subsampled_validation_split_leaves_the_query_set_unseen(toy):
    whole = get_protocol("cifar10")
    fewer = replace(whole, query_per_class=10, n_train=300)
    rule = SubsampledProtocol.of(ValidationProtocol(**asdict(fewer)), 10, 50, 20)
    split = rule.split(toy, 0)
    seen = set(fewer.split(toy, 0).train)
    assert set(split.query) | set(split.train) | set(split.database) <= seen
    assert (len(split.query), len(split.train), len(split.database)) == (10, 50, 20)
    assert split.protocol.name == "cifar10-validation-quick"


def test_a_subsampled_split_depends_on_the_seed_and_the_sizes_alone(toy):
    rule = SubsampledProtocol.of(Protocol("toy", query_per_class=10), 30, 40, 200)
    first, again, other = (rule.split(toy, seed).fingerprint for seed in (0, 0, 1))
    assert first == again != other
    larger = SubsampledProtocol.of(Protocol("toy", query_per_class=10), 31, 40, 200)
    assert larger.split(toy, 0).fingerprint != first


FINGERPRINTS = [
    ("sample", "sample", 0, "cb4eedb4393d2c0ba05661b34bfbf9a442db590311de45a9006bbbfb5b0e872d"),
    ("sample", "sample-validation", 0, "56249200cdcba499fd529bec0f9ca8e63a8d152a1830b9f1aaf2f872640cf06b"),
    ("sample", "sample-quick", 0, "15b9d8b8e6853fae6815bfe3c2a3bb741a4266124684b367d327662bb04ef943"),
    ("sample", "sample-validation-quick", 1, "82d54d82b4bb5b4330a35221db2e8fbe970275a9a390878096c7d1c1ad5bedea"),
    ("sample", "own", 0, "e904735a93952ac23d53dc5a3a0cd5a63c1605b3440cc034a2ead03a498e672c"),
    ("cifar10", "cifar10", 0, "b7dfa697e1110df563eff287234d03a6986ee925a11ad1bfe8bf1ecf7aa6db5e"),
    ("cifar10", "cifar10-quick", 0, "f2f376a0a9c65ea0f28d7229aa65779c23c9211bdc85d0daa3e8b744d1f92bf5"),
    ("cifar10", "cifar10-validation-quick", 0, "65e518b8460bc976da2fca6703290a6bd7b5d640bdce076be9bb4e0710493f13"),
    ("svhn", "svhn", 1, "5317c2e708985141e2a599595c9933a28e003717ef7a87b5c933cf0eef7a7976"),
    ("svhn", "svhn-quick", 0, "047205a2ba114036f471b073f906dcdffc56c365bbbc20b8c79b67b35945ebda"),
]


@pytest.mark.parametrize(("name", "protocol", "seed", "fingerprint"), FINGERPRINTS)
def test_fingerprints_never_change(request, name, protocol, seed, fingerprint):
    root = None if name == "sample" else request.getfixturevalue("data_root")
    rule = get_protocol(protocol.removesuffix("-quick"))
    if protocol.endswith("-quick"):
        rule = SubsampledProtocol.of(rule, 100, 500, 2000)
    assert rule.split(load(name, root=root), seed).fingerprint == fingerprint


def test_a_learned_database_is_the_whole_database_of_the_protocol():
    sample = load("sample")
    whole, learned = (get_protocol(name).split(sample, 3) for name in ("sample", "sample-learned-database"))
    assert np.array_equal(learned.train, learned.database)
    assert np.array_equal(learned.database, whole.database)
    assert np.array_equal(learned.query, whole.query)
    assert learned.protocol.name == "sample-learned-database"
    assert learned.fingerprint != whole.fingerprint
    assert (learned.learned_database, whole.learned_database) == (True, False)
