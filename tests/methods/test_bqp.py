from itertools import combinations, product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ddsh.errors import InvalidInput, UnknownName
from ddsh.methods._bqp import MAX_EXACT, code_omega, full_objective, objective, solve

SOLVERS = ("clustering", "local", "exact")
CONTEXTS = ("before", "others")


def _problem(rng, m, *, whole=False):
    """A random problem of any sign; whole numbers in -2..2 tie everywhere, real ones nowhere."""
    entries = rng.integers(-2, 3, (m + 1, m)) if whole else rng.normal(size=(m + 1, m))
    upper = np.triu(entries[:m], 1)
    return upper + upper.T, entries[m]


def _optimum(Q, p):
    """The least value, by trying everything."""
    return min(b @ Q @ b + b @ p for b in map(np.array, product((-1, 1), repeat=len(p))))


problems = st.builds(
    lambda seed, m, whole: _problem(np.random.default_rng(seed), m, whole=whole),
    st.integers(0, 2**32),
    st.integers(1, 8),
    st.booleans(),
)


# One problem


def test_a_linear_term_draws_the_codes_to_it():
    rng = np.random.default_rng(0)
    wanted = rng.choice([-1, 1], (6, 4))
    codes = code_omega(
        rng.choice([-1, 1], (6, 4)),
        rng.choice([-1, 1], (9, 4)),
        np.ones((6, 6)),
        np.ones((9, 6)),
        solver="local",
        rng=rng,
        linear=-1e4 * wanted,
        context="before",
    )
    assert np.array_equal(codes, wanted)


def test_the_objective_is_the_formula():
    Q, p = np.array([[0, 3], [3, 0]]), np.array([5, -7])
    assert objective(Q, p, np.array([1, -1])) == 2 * -3 + 5 + 7


@given(problems)
def test_exact_finds_the_optimum(problem):
    best = solve(*problem, solver="exact", rng=np.random.default_rng(0))
    assert objective(*problem, best) == pytest.approx(_optimum(*problem), rel=1e-9, abs=1e-9)


@pytest.mark.parametrize("m", [11, 12])
@pytest.mark.parametrize("whole", [True, False])
def test_exact_finds_the_optimum_of_larger_problems(rng, m, whole):
    problem = _problem(rng, m, whole=whole)
    assert objective(*problem, solve(*problem, solver="exact", rng=rng)) == pytest.approx(_optimum(*problem))


def test_exact_takes_twenty_variables_and_no_more(rng):
    Q, p = _problem(rng, MAX_EXACT)
    best = solve(Q, p, solver="exact", rng=rng)
    found = solve(Q, p, solver="local", rng=rng, n_restarts=100)
    assert objective(Q, p, best) <= objective(Q, p, found) + 1e-9
    with pytest.raises(InvalidInput, match="at most 20 variables, got 21; choose"):
        solve(*_problem(rng, 21), solver="exact", rng=rng)


@pytest.mark.parametrize("solver", SOLVERS)
@given(problem=problems, seed=st.integers(0, 99))
def test_every_solver_returns_signs_that_are_not_below_the_optimum(solver, problem, seed):
    found = solve(*problem, solver=solver, rng=np.random.default_rng(seed))
    assert found.dtype == np.int8
    assert found.shape == problem[1].shape
    assert set(found.tolist()) <= {-1, 1}
    assert objective(*problem, found) >= _optimum(*problem) - 1e-9


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("factor", [1e-300, 1e-30, 1e30, 1e300])
def test_the_scale_of_a_problem_does_not_matter(rng, solver, factor):
    Q, p = _problem(rng, 9)
    answers = [solve(Q * by, p * by, solver=solver, rng=np.random.default_rng(1)) for by in (1, factor)]
    assert np.array_equal(*answers)


@pytest.mark.parametrize("solver", SOLVERS)
@given(problem=problems, seed=st.integers(0, 99))
def test_equal_states_of_the_generator_give_equal_answers(solver, problem, seed):
    first, second = (solve(*problem, solver=solver, rng=np.random.default_rng(seed), n_restarts=2) for _ in range(2))
    assert np.array_equal(first, second)


@pytest.mark.parametrize("solver", SOLVERS)
def test_equal_states_give_equal_answers_where_ties_are_everywhere(solver):
    Q, p = 1.0 - np.eye(14), np.zeros(14)
    answers = [solve(Q, p, solver=solver, rng=np.random.default_rng(5)) for _ in range(2)]
    assert np.array_equal(*answers)


@pytest.mark.parametrize("solver", SOLVERS)
def test_noise_in_the_last_digits_breaks_no_ties(rng, solver):
    for seed in range(20):
        whole = _problem(rng, 16, whole=True)
        answers = []
        for noise in (0, 1e-15, 1e-12):
            Q, p = (part / 3 * (1 + noise * rng.normal(size=part.shape)) for part in whole)
            answers.append(solve(Q, p, solver=solver, rng=np.random.default_rng(seed)))
        assert all(np.array_equal(answer, answers[0]) for answer in answers)


# Clustering


def _literal_matrix(Q, p):
    """The matrix of points and dummy (the last) whose sum inside a subset is the objective up to a constant."""
    m = len(p)
    linear = 2 * p - 4 * Q @ np.ones(m)
    M = np.zeros((m + 1, m + 1))
    M[:m, :m], M[m, :m], M[:m, m] = 4 * Q, linear / 2, linear / 2
    return M


def _embedding(M):
    """Points whose squared distances are 2 lambda + 2 M."""
    shift = np.linalg.eigvalsh(M)[-1] + 1
    return np.linalg.cholesky(shift * np.eye(len(M)) - M)


def _spread(points, subset):
    """Sum of squared distances of all ordered pairs within a subset."""
    return sum(np.sum((points[i] - points[j]) ** 2) for i in subset for j in subset)


def _cluster_size(m):
    return int((m + 1) / 2 + 0.5)


def _literal_clustering(Q, p):
    """The method as published: embed, measure, gather around every seed, keep the tightest cluster."""
    m, points = len(p), _embedding(_literal_matrix(Q, p))
    clusters = []
    for seed in range(m + 1):
        near = sorted(range(m), key=lambda j: np.linalg.norm(points[seed] - points[j]))
        clusters.append([m, *near[: _cluster_size(m) - 1]])
    tightest = min(clusters, key=lambda cluster: _spread(points, cluster))
    return np.array([1 if i in tightest else -1 for i in range(m)])


@pytest.mark.parametrize("m", [1, 2, 3, 8, 13, 20])
def test_clustering_agrees_with_the_embedded_points(rng, m):
    for _ in range(5):
        Q, p = _problem(rng, m)
        assert np.array_equal(solve(Q, p, solver="clustering", rng=rng), _literal_clustering(Q, p))


@pytest.mark.parametrize("m", range(1, 10))
def test_the_sum_inside_a_subset_is_the_objective_up_to_a_constant(rng, m):
    Q, p = _problem(rng, m)
    M = _literal_matrix(Q, p)
    shifts = [
        objective(Q, p, 2 * np.array(z) - 1) - np.array([*z, 1]) @ M @ np.array([*z, 1])
        for z in product((0, 1), repeat=m)
    ]
    assert np.ptp(shifts) < 1e-9


@given(problems)
def test_a_cluster_spreads_at_most_twice_as_wide_as_the_tightest(problem):
    m, points = len(problem[1]), _embedding(_literal_matrix(*problem))
    found = [m, *np.flatnonzero(solve(*problem, solver="clustering", rng=np.random.default_rng(0)) > 0)]
    tightest = min(_spread(points, [m, *chosen]) for chosen in combinations(range(m), _cluster_size(m) - 1))
    assert tightest - 1e-6 <= _spread(points, found) <= 2 * tightest + 1e-6


@pytest.mark.parametrize("m", [1, 2, 7, 100, 101])
@pytest.mark.parametrize("whole", [True, False])
def test_clusters_are_balanced(rng, m, whole):
    assert (solve(*_problem(rng, m, whole=whole), solver="clustering", rng=rng) > 0).sum() == m // 2


def test_the_generator_breaks_the_ties_of_clustering():
    Q, p = np.zeros((12, 12)), np.zeros(12)
    answers = {solve(Q, p, solver="clustering", rng=np.random.default_rng(seed)).tobytes() for seed in range(20)}
    assert len(answers) > 15


# Local descent


def _flip_gains(Q, p, b):
    """By how much each single flip lowers the objective."""
    flips = b * (1 - 2 * np.eye(len(b)))
    return np.array([objective(Q, p, b) - objective(Q, p, flipped) for flipped in flips])


@given(problem=problems, seed=st.integers(0, 99))
def test_no_single_flip_improves_the_result_of_local(problem, seed):
    found = solve(*problem, solver="local", rng=np.random.default_rng(seed))
    assert _flip_gains(*problem, found).max() <= 1e-9


def test_local_flips_the_entry_that_gains_most_and_the_first_of_several(rng):
    for whole in (True, False):
        Q, p = _problem(rng, 30, whole=whole)
        start = b = rng.choice([-1, 1], 30)
        while (gains := _flip_gains(Q, p, b)).max() > 1e-9:
            b = b * np.where(np.arange(30) == np.argmax(gains), -1, 1)
        assert np.array_equal(solve(Q, p, solver="local", rng=rng, start=start), b)


@given(problem=problems, seed=st.integers(0, 99), n_restarts=st.integers(0, 3))
def test_local_is_never_worse_than_its_start(problem, seed, n_restarts):
    rng = np.random.default_rng(seed)
    start = rng.choice([-1, 1], len(problem[1]))
    found = solve(*problem, solver="local", rng=rng, start=start, n_restarts=n_restarts)
    assert objective(*problem, found) <= objective(*problem, start) + 1e-9


def test_restarts_find_what_one_descent_misses(rng):
    Q, p = np.array([[0, -2], [-2, 0]]), np.array([-1, -1])
    trap, best = np.array([-1, -1]), np.array([1, 1])
    assert np.array_equal(solve(Q, p, solver="local", rng=rng, start=trap), trap)
    assert np.array_equal(solve(Q, p, solver="local", rng=rng, start=trap, n_restarts=20), best)


def test_a_start_at_the_optimum_is_kept(rng):
    Q, p = _problem(rng, 12)
    best = solve(Q, p, solver="exact", rng=rng)
    assert np.array_equal(solve(Q, p, solver="local", rng=rng, start=best, n_restarts=3), best)


# Bad input


@pytest.mark.parametrize(
    ("Q", "p", "message"),
    [
        (np.zeros((2, 3)), np.zeros(2), r"got shapes \(2, 3\) and \(2,\)"),
        (np.zeros((2, 2)), np.zeros(3), r"got shapes \(2, 2\) and \(3,\)"),
        (np.zeros((0, 0)), np.zeros(0), "m >= 1"),
        (np.zeros((2, 2)), np.zeros((2, 1)), r"got shapes \(2, 2\) and \(2, 1\)"),
        (np.array([[0, 1], [2, 0]]), np.zeros(2), "Q must be symmetric"),
        (np.eye(2), np.zeros(2), "zero diagonal"),
        (np.array([[0, np.nan], [np.nan, 0]]), np.zeros(2), "Q contains NaN"),
        (np.zeros((2, 2)), np.array([0, np.inf]), "p contains NaN or infinity"),
    ],
)
def test_a_problem_of_the_wrong_form_is_refused_in_one_line(rng, Q, p, message):
    with pytest.raises(InvalidInput, match=message) as caught:
        solve(Q, p, solver="local", rng=rng)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("start", "message"),
    [
        (np.ones(3), r"start must have shape \(2,\); got \(3,\)"),
        (np.array([1, 0]), "start must contain only -1 and \\+1; found 0"),
        (np.array([1, np.nan]), "found nan"),
    ],
)
def test_a_start_that_is_not_signs_is_refused(rng, start, message):
    with pytest.raises(InvalidInput, match=message):
        solve(np.zeros((2, 2)), np.zeros(2), solver="local", rng=rng, start=start)


def test_an_unknown_solver_and_a_negative_count_are_refused(rng):
    with pytest.raises(UnknownName, match=r"Unknown solver 'locl'\. Did you mean 'local'"):
        solve(np.zeros((2, 2)), np.zeros(2), solver="locl", rng=rng)
    with pytest.raises(InvalidInput, match="n_restarts must be 0 or more; got -1"):
        solve(np.zeros((2, 2)), np.zeros(2), solver="local", rng=rng, n_restarts=-1)


def test_the_objective_of_anything_but_signs_is_refused():
    with pytest.raises(InvalidInput, match="b must contain only -1 and"):
        objective(np.zeros((2, 2)), np.zeros(2), np.array([0.5, 1]))


# All bits


def _blocks(rng, m, n, c, *, ratio=0.125):
    """Codes and similarities +1, -ratio, and a few 0, as for points of three classes."""
    omega, gamma = rng.integers(0, 3, m), rng.integers(0, 3, n)
    S_omega, S_gamma = (np.where(labels[:, None] == omega, 1.0, -ratio) for labels in (omega, gamma))
    S_gamma[rng.random((n, m)) < 0.1] = 0
    return rng.choice([-1, 1], (m, c)), rng.choice([-1, 1], (n, c)), S_omega, S_gamma


def _literal_bit(B_omega, B_gamma, S_omega, S_gamma, k, bits):
    """Q and p of one bit, entry by entry, as printed in the paper (the sum runs over `bits`)."""
    (m, c), n = B_omega.shape, len(B_gamma)
    Q, p = np.zeros((m, m)), np.zeros(m)
    for i in range(m):
        for j in range(m):
            if i != j:
                Q[i, j] = -2 * (c * S_omega[i, j] - sum(B_omega[i, b] * B_omega[j, b] for b in bits))
        for j in range(n):
            known = sum(B_gamma[j, b] * B_omega[i, b] for b in bits)
            p[i] -= 2 * B_gamma[j, k] * (c * S_gamma[j, i] - known)
    return Q, p


def _literal_bits(k, c, context):
    return [b for b in range(c) if b < k or (context == "others" and b > k)]


def _literal_coding(B_omega, B_gamma, S_omega, S_gamma, *, solver, rng, context):
    codes = B_omega.copy()
    for k in range(codes.shape[1]):
        Q, p = _literal_bit(codes, B_gamma, S_omega, S_gamma, k, _literal_bits(k, codes.shape[1], context))
        codes[:, k] = solve(Q, p, solver=solver, rng=rng, start=codes[:, k])
    return codes


def _literal_loss(B_omega, B_gamma, S_omega, S_gamma, loss):
    """A pair loss summed over sampled x others once, and over ordered pairs of sampled points, pair by pair."""
    pairs = [(a @ b, S_gamma[j, i]) for i, a in enumerate(B_omega) for j, b in enumerate(B_gamma)]
    pairs += [(a @ b, S_omega[i, j]) for i, a in enumerate(B_omega) for j, b in enumerate(B_omega)]
    return sum(loss(g, s) for g, s in pairs)


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("context", CONTEXTS)
def test_coding_agrees_with_the_paper_entry_by_entry(rng, solver, context):
    for _ in range(3):
        blocks = _blocks(rng, 7, 11, 5)
        found, expected = (
            code(*blocks, solver=solver, rng=np.random.default_rng(3), context=context)
            for code in (code_omega, _literal_coding)
        )
        assert np.array_equal(found, expected)
        assert found.dtype == np.int8


def test_a_bit_weighs_pairs_as_the_full_objective_does(rng):
    B_omega, *rest = _blocks(rng, 5, 6, 4)
    Q, p = _literal_bit(B_omega, *rest, 2, [0, 1, 3])
    differences = []
    for b in map(np.array, product((-1, 1), repeat=5)):
        B_omega[:, 2] = b
        differences.append(full_objective(B_omega, *rest) - objective(Q, p, b))
    assert np.ptp(differences) < 1e-9


@pytest.mark.parametrize("shape", [(5, 9, 4), (4, 0, 3), (1, 2, 1)])
def test_the_full_objective_is_the_sum_over_pairs(rng, shape):
    blocks = _blocks(rng, *shape)
    assert full_objective(*blocks) == pytest.approx(
        _literal_loss(*blocks, lambda g, s: (shape[2] * s - g) ** 2), abs=1e-9
    )


@pytest.mark.parametrize("solver", ["local", "exact"])
@given(seed=st.integers(0, 2**32))
def test_coding_against_all_other_bits_never_raises_the_full_objective(solver, seed):
    rng = np.random.default_rng(seed)
    codes, *rest = _blocks(rng, int(rng.integers(1, 12)), int(rng.integers(0, 30)), int(rng.integers(1, 9)))
    for _ in range(3):
        coded = code_omega(codes, *rest, solver=solver, rng=rng, context="others")
        assert full_objective(coded, *rest) <= full_objective(codes, *rest)
        codes = coded


def test_coding_lowers_the_full_objective_of_random_codes_much(rng):
    codes, _, *similarities = _blocks(rng, 30, 60, 12, ratio=0.5)
    prototypes = rng.choice([-1, 1], (3, 12))
    gamma = prototypes[rng.integers(0, 3, 60)]
    rest = (gamma, *similarities)
    before = full_objective(codes, *rest)
    for solver, context in product(("clustering", "local"), CONTEXTS):
        assert full_objective(code_omega(codes, *rest, solver=solver, rng=rng, context=context), *rest) < 0.9 * before


@pytest.mark.parametrize("solver", ["clustering", "local"])
@pytest.mark.parametrize("context", CONTEXTS)
@pytest.mark.parametrize("ratio", [1, 1 / 9, 0.1234567891234])
def test_the_general_path_with_the_slope_of_the_l2_loss_is_the_fast_path(rng, solver, context, ratio):
    blocks = _blocks(rng, 20, 300, 16, ratio=ratio)
    fast, general = (
        code_omega(*blocks, solver=solver, rng=np.random.default_rng(3), context=context, slope=slope)
        for slope in (None, lambda g, s: -2 * (16 * s - g))
    )
    assert np.array_equal(fast, general)


def _logistic(g, s):
    return np.logaddexp(0, -s * g / 2)


def _absolute(g, s):
    return np.abs(8 * s - g)


@pytest.mark.parametrize("loss", [_logistic, _absolute])
def test_any_pair_loss_never_rises_under_its_own_slope(rng, loss):
    codes, *rest = _blocks(rng, 8, 12, 8)
    losses = [_literal_loss(codes, *rest, loss)]
    for _ in range(3):
        slope = lambda g, s: (loss(g + 1, s) - loss(g - 1, s)) / 2  # noqa: E731
        codes = code_omega(codes, *rest, solver="local", rng=rng, context="others", slope=slope)
        losses.append(_literal_loss(codes, *rest, loss))
    assert np.diff(losses).max() <= 1e-9
    assert losses[-1] < 0.9 * losses[0]


@pytest.mark.parametrize("solver", ["clustering", "local"])
def test_the_order_in_which_the_others_are_summed_does_not_matter(rng, solver):
    omega, gamma = rng.integers(0, 10, 60), rng.integers(0, 10, 2000)
    B_omega, B_gamma = rng.choice([-1, 1], (60, 24)), rng.choice([-1, 1], (2000, 24))
    order = rng.permutation(2000)
    for ratio in rng.random(10):
        S_omega, S_gamma = (np.where(labels[:, None] == omega, 1.0, -ratio) for labels in (omega, gamma))
        answers = [
            code_omega(B_omega, B, S_omega, S, solver=solver, rng=np.random.default_rng(3), context="before")
            for B, S in ((B_gamma, S_gamma), (B_gamma[order], S_gamma[order]))
        ]
        assert np.array_equal(*answers)


def test_small_integer_types_do_not_overflow(rng):
    blocks = _blocks(rng, 40, 2000, 32, ratio=1)
    small, large = (
        code_omega(*(block.astype(kind) for block in blocks), solver="local", rng=rng, context="before")
        for kind in (np.int8, np.float64)
    )
    assert np.array_equal(small, large)


@pytest.mark.parametrize("slope", [None, lambda g, s: s, lambda g, s: np.broadcast_to(-1.0, s.shape)])
def test_coding_leaves_its_input_as_it_was(rng, slope):
    blocks = [block.astype(np.float64) for block in _blocks(rng, 6, 9, 4)]
    copies = [block.copy() for block in blocks]
    code_omega(*blocks, solver="local", rng=rng, context="before", slope=slope)
    assert all(np.array_equal(block, copy) for block, copy in zip(blocks, copies, strict=True))


def test_clustered_bits_are_balanced(rng):
    codes = code_omega(*_blocks(rng, 20, 50, 6), solver="clustering", rng=rng, context="before")
    assert not codes.sum(axis=0).any()


def _spoiled(blocks, place, value):
    spoiled = [block.astype(np.float64) for block in blocks]
    spoiled[place][0, 1] = value
    return spoiled


def test_blocks_that_do_not_fit_are_refused_in_one_line(rng):
    B_omega, B_gamma, S_omega, S_gamma = blocks = _blocks(rng, 4, 6, 3)
    for wrong in (
        (B_omega, B_gamma, S_omega, S_gamma.T),
        (B_omega, B_gamma[:, :2], S_omega, S_gamma),
        (B_omega[:3], B_gamma, S_omega, S_gamma),
        (B_omega[0], B_gamma, S_omega, S_gamma),
        (B_omega[:, :0], B_gamma[:, :0], S_omega, S_gamma),
        (B_omega, np.float64(1), S_omega, S_gamma),
    ):
        with pytest.raises(InvalidInput, match=r"must have shapes \(m, c\), \(n, c\), \(m, m\), \(n, m\)[^\n]*$"):
            code_omega(*wrong, solver="local", rng=rng, context="before")
    for place, value, message in (
        (0, 0, "B_omega must contain only -1 and"),
        (1, 2, "B_gamma must contain only -1 and"),
        (2, 0.5, "S_omega must be symmetric"),
        (2, np.nan, "S_omega contains NaN"),
        (3, np.inf, "S_gamma contains NaN or infinity"),
    ):
        with pytest.raises(InvalidInput, match=message):
            code_omega(*_spoiled(blocks, place, value), solver="local", rng=rng, context="before")


def test_a_slope_of_the_wrong_shape_and_an_unknown_context_are_refused(rng):
    blocks = _blocks(rng, 4, 6, 3)
    with pytest.raises(InvalidInput, match=r"slope must return an array of shape \(4, 4\); got \(4,\)"):
        code_omega(*blocks, solver="local", rng=rng, context="before", slope=lambda g, s: s[0])
    with pytest.raises(UnknownName, match=r"Unknown context 'other'\. Did you mean 'others'"):
        code_omega(*blocks, solver="local", rng=rng, context="other")


@pytest.mark.parametrize("seed", range(8))
def test_weights_of_points_weigh_their_pairs(seed):
    B_omega, B_gamma, S_omega, S_gamma = _blocks(np.random.default_rng(seed), 5, 6, 4)
    weights = np.array([3, 1, 2, 1, 1])
    often = np.repeat(np.arange(5), weights)
    found = code_omega(
        B_omega,
        B_gamma,
        S_omega,
        S_gamma,
        solver="exact",
        context="others",
        weights=weights,
        rng=np.random.default_rng(0),
    )

    def loss(codes):
        repeated = codes[often], B_gamma, S_omega[np.ix_(often, often)], S_gamma[:, often]
        return full_objective(*repeated)

    bit = B_omega.copy()
    losses = []
    for b in map(np.array, product((-1, 1), repeat=5)):
        bit[:, 0] = b
        losses.append(loss(bit))
    bit[:, 0] = found[:, 0]
    assert loss(bit) == pytest.approx(min(losses))
