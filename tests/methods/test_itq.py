import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.decomposition import PCA

from ddsh.errors import InvalidInput
from ddsh.methods.itq import ITQ


def features_of_falling_variance(rng, n_items, n_features):
    """Features whose principal directions are well apart, in no particular order or place."""
    spread = rng.permutation(0.9 ** np.arange(n_features))
    features = rng.normal(size=(n_items, n_features)) * spread
    mirror = rng.normal(size=n_features) / np.sqrt(n_features)
    return features - 2 * np.outer(features @ mirror, mirror) / (mirror @ mirror) + rng.normal(size=n_features)


def quantisation_error(outputs):
    return np.square(np.where(outputs > 0, 1, -1) - outputs).sum()


@given(st.integers(0, 2**32 - 1), st.integers(10, 60), st.integers(1, 9), st.floats(0.01, 100))
def test_the_quantisation_error_never_rises(seed, n_items, n_bits, scale):
    features = scale * np.random.default_rng(seed).standard_t(3, (n_items, 9))
    errors = ITQ(n_bits, seed=seed % 100).fit(features).errors_
    assert len(errors) == 51
    assert (np.diff(errors) <= 1e-9 * errors[0]).all()


def test_the_quantisation_error_falls_by_much(rng):
    corners = rng.choice([-1.0, 1.0], (300, 8)) @ np.linalg.qr(rng.normal(size=(8, 8)))[0]
    errors = ITQ(8).fit(corners + 0.05 * rng.normal(size=(300, 8))).errors_
    assert errors[-1] < 0.5 * errors[0]


def test_the_last_error_is_that_of_the_outputs(rng):
    features = rng.normal(size=(50, 12))
    method = ITQ(8).fit(features)
    assert method.errors_[-1] == pytest.approx(quantisation_error(method.project(features)))


def test_the_rotation_is_orthogonal(rng):
    rotation = ITQ(8).fit(rng.normal(size=(50, 12))).rotation_
    assert rotation.T @ rotation == pytest.approx(np.eye(8), abs=1e-12)


@pytest.mark.parametrize(("shape", "n_bits"), [((200, 30), 12), ((30, 200), 12), ((1100, 1030), 5), ((1030, 1100), 5)])
def test_the_principal_directions_are_those_of_scikit_learn(rng, shape, n_bits):
    features = features_of_falling_variance(rng, *shape)
    solver = "full" if min(shape) < 1000 else "covariance_eigh"
    expected = PCA(n_bits, svd_solver=solver).fit(features).components_
    found = ITQ(n_bits, n_iterations=0).fit(features).components_
    assert np.abs(expected @ found) == pytest.approx(np.eye(n_bits), abs=1e-6)


def test_the_largest_entry_of_a_principal_direction_is_positive(rng):
    components = ITQ(8).fit(rng.normal(size=(50, 12))).components_
    assert (components.max(axis=0) == np.abs(components).max(axis=0)).all()


def test_the_scale_of_the_features_does_not_matter(rng):
    features = rng.normal(size=(50, 12))
    assert ITQ(8).fit(4 * features).encode(4 * features) == ITQ(8).fit(features).encode(features)


def test_another_seed_starts_from_another_rotation(rng):
    features = rng.normal(size=(50, 12))
    first, second = (ITQ(8, n_iterations=0, seed=seed).fit(features).rotation_ for seed in (0, 1))
    assert not np.allclose(first, second)


@pytest.fixture
def half_and_mirror(rng):
    """Features of mean zero and unit length, which faiss makes of any features before it begins."""
    half = rng.normal(size=(400, 24)) * 0.8 ** np.arange(24)
    half /= np.linalg.norm(half, axis=1, keepdims=True)
    return np.vstack([half, -half]).astype(np.float32)


def test_faiss_finds_no_better_rotation_from_the_same_start(half_and_mirror):
    faiss = pytest.importorskip("faiss")
    ours = ITQ(12).fit(half_and_mirror).errors_
    assert _error_of_faiss(faiss, half_and_mirror, n_iterations=0) == pytest.approx(ours[0], rel=1e-6)
    assert ours[-1] <= _error_of_faiss(faiss, half_and_mirror, n_iterations=50)


def _error_of_faiss(faiss, features, n_iterations):
    start = ITQ(12, n_iterations=0).fit(features)
    peer = faiss.ITQTransform(24, 12, True)
    peer.itq.max_iter = n_iterations
    faiss.copy_array_to_vector(_as_faiss_sees_it(faiss, features, start).ravel(), peer.itq.init_rotation)
    peer.train(features)
    return quantisation_error(peer.apply(features).astype(np.float64))


def _as_faiss_sees_it(faiss, features, start):
    """The rotation at the start in faiss's principal directions, whose signs are its own."""
    pca = faiss.PCAMatrix(24, 12)
    pca.train(features)
    directions = faiss.vector_to_array(pca.A).reshape(-1, 24)[:12]
    overlap = directions @ start.components_
    assert np.abs(overlap) == pytest.approx(np.eye(12), abs=1e-2)
    return np.sign(overlap.diagonal())[:, None] * start.rotation_


@pytest.mark.parametrize(
    ("features", "message"),
    [
        (np.random.default_rng(0).normal(size=(50, 7)), "7 for n_samples=50, n_features=7, but n_bits is 8"),
        (np.random.default_rng(0).normal(size=(6, 70)), "5 for n_samples=6, n_features=70"),
        (np.tile(np.random.default_rng(0).normal(size=(50, 3)), 5), "3 for n_samples=50, n_features=15"),
        (np.ones((50, 10)), "0 for n_samples=50"),
        (np.zeros((1030, 1025)), "0 for n_samples=1030"),
        (np.zeros((1, 10)), "0 for n_samples=1"),
    ],
)
def test_more_bits_than_directions_are_refused_with_a_way_out(features, message):
    with pytest.raises(InvalidInput, match=f"{message}.*fewer bits.*lsh"):
        ITQ(8).fit(features)


@given(st.integers(0, 2**32 - 1), st.integers(2, 8), st.integers(8, 300))
def test_items_vary_in_one_direction_less_than_there_are_items(seed, n_items, n_features):
    features = np.random.default_rng(seed).normal(5, 1, (n_items, n_features))
    with pytest.raises(InvalidInput, match=f"vary: {n_items - 1} for n_samples={n_items}"):
        ITQ(n_items).fit(features)


def test_a_refused_fit_leaves_the_last_one_in_place(rng):
    features = rng.normal(size=(50, 12))
    method = ITQ(8).fit(features)
    codes = method.encode(features)
    with pytest.raises(InvalidInput, match="fewer bits"):
        method.fit(features[:5])
    assert method.encode(features) == codes


def test_a_negative_number_of_iterations_is_refused(rng):
    with pytest.raises(InvalidInput, match="n_iterations must be 0 or more; got -1"):
        ITQ(8, n_iterations=-1).fit(rng.normal(size=(50, 12)))
