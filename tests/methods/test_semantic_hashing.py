import numpy as np
import pytest
from scipy.special import expit

from ddsh.errors import InvalidInput
from ddsh.methods.semantic_hashing import SemanticHashing, train_rbm

QUICK = {"n_hidden": 16, "pretraining_epochs": 3, "batch_size": 20}


@pytest.fixture
def corners(rng):
    """Noisy corners of a cube, seen through a rotation."""
    bits = rng.choice([-1.0, 1.0], (200, 3))
    return bits @ np.linalg.qr(rng.normal(size=(12, 12)))[0][:3] * 3 + 0.1 * rng.normal(size=(200, 12)), bits


def test_the_reconstruction_improves(corners):
    losses = SemanticHashing(8, epochs=60, learning_rate=1e-2, **QUICK).fit(corners[0]).losses_
    assert len(losses) == 60
    assert losses[-1] < 0.7 * losses[0]


def test_noise_drives_the_code_units_to_their_ends(corners):
    def share_at_the_ends(noise):
        method = SemanticHashing(8, epochs=60, learning_rate=1e-2, noise=noise, **QUICK).fit(corners[0])
        return (np.abs(method.project(corners[0])) > 3).mean()

    assert share_at_the_ends(4.0) > share_at_the_ends(0.0) + 0.2


def test_different_corners_get_different_codes(corners):
    features, bits = corners
    codes = SemanticHashing(8, epochs=60, learning_rate=1e-2, **QUICK).fit(features).encode(features)
    same = (bits[:, None] == bits).all(axis=2)
    distances = codes.hamming(codes)
    assert distances[same].mean() < 0.2 * distances[~same].mean()


def test_a_restricted_boltzmann_machine_learns_which_units_are_on_together(rng):
    on = rng.random((400, 1)) < 0.5
    visible = np.hstack([on, on, ~on, rng.random((400, 1)) < 0.5]).astype(float)
    W, b, c = train_rbm(visible, 4, 60, 20, rng, is_gaussian=False)
    # The first three units are seen; one step through the hidden units says which of two patterns it was.
    hidden = expit(np.array([[1, 1, 0, 0.5], [0, 0, 1, 0.5]]) @ W + c)
    rebuilt = expit(hidden @ W.T + b)
    assert rebuilt[:, :3].round() == pytest.approx(np.array([[1, 1, 0], [0, 0, 1]]))


def test_constant_features_do_no_harm(rng):
    features = np.column_stack([rng.normal(size=(50, 3)), np.full(50, 7.0)])
    assert np.isfinite(SemanticHashing(4, epochs=2, **QUICK).fit(features).project(features)).all()


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("n_hidden", 0, "n_hidden must be 1 or more; got 0"),
        ("epochs", 0, "epochs must be 1 or more; got 0"),
        ("noise", -1, "noise must be 0 or more; got -1"),
        ("learning_rate", 0, "learning_rate must be above 0; got 0"),
    ],
)
def test_impossible_parameters_are_refused(rng, name, value, message):
    with pytest.raises(InvalidInput, match=message):
        SemanticHashing(4, **{name: value}).fit(rng.normal(size=(50, 3)))
