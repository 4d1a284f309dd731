from functools import partial
from itertools import product

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from ddsh.errors import InvalidInput
from ddsh.labels import as_labels
from ddsh.methods import DDSH, Training, TripletLoss
from ddsh.methods._bqp import code_omega
from ddsh.methods._triplets import draw_triplets, triplet_terms
from ddsh.methods.losses import as_loss, describe_loss

LOSS = TripletLoss(margin=0.4)


def problem(seed, m=5, n=7, n_bits=4):
    rng = np.random.default_rng(seed)
    codes, others = rng.choice([-1, 1], (m, n_bits)), rng.choice([-1, 1], (n, n_bits))
    labels = as_labels(rng.integers(0, 2, m + n))
    similar = labels.similar(labels)[:, :m]
    triplets = draw_triplets(similar, 6, rng)
    return codes, others, similar, triplets, rng


def of_gaps(gaps):
    return LOSS.values(gaps, 4)


def total_loss(codes, others, triplets):
    products = np.vstack([codes, others]) @ codes.T
    return of_gaps(products[triplets.image, triplets.similar] - products[triplets.image, triplets.other]).sum()


@given(arrays(bool, st.tuples(st.integers(3, 9), st.just(3))), st.integers(1, 5))
def test_triplets_have_a_similar_and_another_partner(similar, n_each):
    drawn = draw_triplets(similar, n_each, np.random.default_rng(0))
    able = [
        row
        for row, each in enumerate(similar)
        if any(each[column] and column != row for column in range(3)) and not each.all()
    ]
    assert sorted(drawn.image) == sorted(able * n_each)
    assert similar[drawn.image, drawn.similar].all()
    assert not similar[drawn.image, drawn.other].any()
    assert (drawn.image != drawn.similar).all()


def test_all_partners_are_drawn():
    drawn = draw_triplets(np.array([[True, True, False, False]] * 6), 200, np.random.default_rng(0))
    of_last = drawn.image == 5
    assert set(drawn.similar[of_last]) == {0, 1}
    assert set(drawn.other[of_last]) == {2, 3}
    assert not set(drawn.similar[drawn.image == 0]) & {0}


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("known", [[], [0], [0, 1, 3]])
def test_the_terms_of_a_bit_are_its_triplets_up_to_a_constant(seed, known):
    codes, others, _, triplets, _ = problem(seed)
    Q, p = triplet_terms(others, triplets, of_gaps, codes, known, 2)
    columns = [*known, 2]
    shifts = []
    for bit in product((-1, 1), repeat=5):
        changed, b = codes.copy(), np.array(bit)
        changed[:, 2] = b
        total = total_loss(changed[:, columns], others[:, columns], triplets)
        shifts.append(total - b @ Q @ b - b @ p)
    assert np.ptp(shifts) < 1e-9


@pytest.mark.parametrize("seed", range(5))
def test_the_discrete_step_never_increases_the_loss_of_the_triplets(seed):
    codes, others, similar, triplets, rng = problem(seed)
    before = total_loss(codes, others, triplets)
    S = np.where(similar, 1.0, -1.0)
    found = code_omega(
        codes,
        others,
        S[:5],
        S[5:],
        solver="exact",
        context="others",
        rng=rng,
        terms=partial(triplet_terms, others, triplets, of_gaps),
    )
    after = total_loss(found, others, triplets)
    assert after <= before + 1e-9
    for flipped in range(5):  # the last bit was solved with all others at their final values
        changed = found.copy()
        changed[flipped, -1] *= -1
        assert after <= total_loss(changed, others, triplets) + 1e-9


def test_the_networks_loss_is_the_mean_of_all_triplets(rng):
    outputs = torch.from_numpy(rng.normal(size=(6, 4))).requires_grad_()
    codes = torch.from_numpy(rng.choice([-1.0, 1.0], (8, 4)))
    similarity = torch.from_numpy(rng.choice([1.0, -0.1], (6, 8)))
    products = (torch.tanh(outputs) @ codes.T).detach().numpy()
    gaps = [
        products[i, p] - products[i, n]
        for i, p, n in product(range(6), range(8), range(8))
        if similarity[i, p] > 0 > similarity[i, n]
    ]
    found = LOSS.mean(torch.tanh(outputs) @ codes.T, similarity, 4)
    assert found.item() == pytest.approx(LOSS.values(np.array(gaps), 4).mean() / 4)
    torch.autograd.gradcheck(lambda z: LOSS.mean(torch.tanh(z) @ codes.T, similarity, 4), [outputs])


def test_the_loss_has_a_name_and_checked_parameters():
    assert as_loss({"kind": "triplet", "margin": 0.3}) == TripletLoss(0.3)
    assert describe_loss("triplet") == {"kind": "triplet", "margin": 0.5, "n_triplets": 20}
    with pytest.raises(InvalidInput, match="margin must be 0 to 1"):
        TripletLoss(1.5)
    with pytest.raises(InvalidInput, match="n_triplets must be 1 or more"):
        TripletLoss(n_triplets=0)
    with pytest.raises(InvalidInput, match="A ridge solves the L2 loss"):
        DDSH(8, loss="triplet", ridge=1).fit(np.zeros((20, 8, 8, 1), np.uint8), np.arange(20) % 2)


def test_codes_learned_from_triplets_tell_classes_apart(rng):
    labels = np.arange(80) % 2
    images = (rng.normal(60 + 120 * labels[:, None, None, None], 20, (80, 12, 12, 1))).clip(0, 255).astype(np.uint8)
    training = Training(epochs=6, learning_rate=0.1, batch_size=20)
    method = DDSH(8, loss="triplet", n_omega=20, start="random", warm_up=0, backbone="small-grey", training=training)
    codes = method.fit(images, labels).encode(images)
    distances = codes.hamming(codes)
    same = labels[:, None] == labels[None, :]
    assert distances[~same].mean() > 4 + distances[same].mean()
