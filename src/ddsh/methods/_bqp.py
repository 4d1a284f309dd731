"""Binary quadratic programmes, and the discrete step of DDSH and COSDISH.

A programme is min b'Qb + b'p over b in {-1, +1}^m. `Q` is symmetric with a zero diagonal; b'Qb counts every pair twice.
"""

# ruff: noqa: N803 -- arguments carry the paper's letters

from collections.abc import Callable
from typing import Any, Literal, TypeAlias, get_args

import numpy as np
from numpy.typing import NDArray

from ddsh.errors import InvalidInput, UnknownName

Solver: TypeAlias = Literal["clustering", "local", "exact"]
"""Solver of one bit; see :func:`solve`."""

Context: TypeAlias = Literal["before", "others"]
"""Bits that are fixed while one is solved; see :func:`code_omega`."""

Signs: TypeAlias = NDArray[np.int8]
Slope: TypeAlias = Callable[[NDArray[np.float64], NDArray[np.float64]], NDArray[np.float64]]
"""Half the difference of a pair loss between inner products g + 1 and g - 1, for arrays of g and of similarities."""

Terms: TypeAlias = Callable[[NDArray[Any], list[int], int], tuple[NDArray[np.float64], NDArray[np.float64]]]
"""Q and p of a bit, from the codes, the bits that are fixed, and the bit."""

MAX_EXACT = 20
"""Maximum number of variables for ``"exact"``."""

_Array: TypeAlias = NDArray[np.float64]
_SYMMETRY = 1e-9
_GRID_BITS = 40


def objective(Q: NDArray[Any], p: NDArray[Any], b: NDArray[Any]) -> float:
    """Return b'Qb + b'p."""
    quadratic, linear = _checked_problem(Q, p)
    return float(_values(quadratic, linear, _checked_signs("b", b, linear.shape)[None])[0])


def solve(
    Q: NDArray[Any],
    p: NDArray[Any],
    *,
    solver: Solver,
    rng: np.random.Generator,
    start: NDArray[Any] | None = None,
    n_restarts: int = 0,
) -> Signs:
    """Minimise b'Qb + b'p over b in {-1, +1}^m, exactly or approximately.

    Parameters
    ----------
    Q : ndarray, shape (m, m)
        Symmetric, with a zero diagonal.
    p : ndarray, shape (m,)
        The linear term.
    solver : {"clustering", "local", "exact"}
        ``"clustering"`` is the paper's: the best of m + 1 balanced vectors (m // 2 entries are +1), within a factor
        2 of the tightest cluster; `rng` breaks ties. ``"local"`` flips the entry that lowers the objective most (the
        first one if there are several) until no flip lowers it. ``"exact"`` enumerates, for m up to `MAX_EXACT`.
    rng : numpy Generator
        Source of randomness.
    start : ndarray of -1 and +1, shape (m,), optional
        Starting point of ``"local"``, random by default; the result is never worse. Other solvers ignore it.
    n_restarts : int
        Number of additional random starts of ``"local"``; the best result is returned.

    Returns
    -------
    ndarray of int8, shape (m,)
        Vector of -1 and +1.

    References
    ----------
    Kang, W.-C., Li, W.-J. and Zhou, Z.-H. "Column Sampling Based Discrete Supervised Hashing." AAAI 2016.
    Yang, R. "New Results on Some Quadratic Programming Problems." PhD thesis, University of Illinois, 2013.
    Differs from both in ordering the columns of the matrix itself, so that neither an embedding of the points nor its
    Cholesky factor is computed.
    """
    if solver not in get_args(Solver):
        raise UnknownName("solver", solver, get_args(Solver))
    quadratic, linear = _checked_problem(Q, p)
    begin = None if start is None else _checked_signs("start", start, linear.shape)
    if n_restarts < 0:
        raise InvalidInput(f"n_restarts must be 0 or more; got {n_restarts}.")
    # Round Q and p to whole multiples of a unit that is small compared with their row sums. Ties are frequent, and sums
    # that differ by rounding errors alone would break them by the order of summation, which depends on the machine and
    # its threads. Sums of integers are exact in any order (below 2^53: for m up to 1,000), and a descent terminates
    # because no gain is a rounding error.
    shift = _GRID_BITS - max(_exponent(quadratic) + len(linear).bit_length(), _exponent(linear))
    scaled: Any = np.ldexp(quadratic / 2 + quadratic.T / 2, shift), np.ldexp(linear, shift)
    whole_Q, whole_p = np.round(scaled[0]), np.round(scaled[1])
    if solver == "exact":
        best = _by_enumeration(whole_Q, whole_p)
    elif solver == "clustering":
        best = _by_clustering(whole_Q, whole_p, rng)
    else:
        best = _by_descent(whole_Q, whole_p, rng, begin, n_restarts)
    return best.astype(np.int8)


def code_omega(
    B_omega: NDArray[Any],
    B_gamma: NDArray[Any],
    S_omega: NDArray[Any],
    S_gamma: NDArray[Any],
    *,
    solver: Solver,
    rng: np.random.Generator,
    slope: Slope | None = None,
    terms: Terms | None = None,
    linear: NDArray[Any] | None = None,
    weights: NDArray[Any] | None = None,
    context: Context,
) -> Signs:
    """Learn the codes of the sampled points bit by bit, with all other codes fixed.

    Parameters
    ----------
    B_omega : ndarray of -1 and +1, shape (m, c)
        Current codes of the sampled points; not modified.
    B_gamma : ndarray of -1 and +1, shape (n, c)
        Codes of the other points.
    S_omega : ndarray, shape (m, m)
        Similarities among the sampled points, symmetric.
    S_gamma : ndarray, shape (n, m)
        Similarities of the other points to the sampled ones.
    solver : {"clustering", "local", "exact"}
        Solver of one bit; ``"local"`` starts from the current bit.
    rng : numpy Generator
        Source of randomness.
    slope : callable, optional
        (l(g + 1, s) - l(g - 1, s)) / 2 of a pair loss l(g, s), for arrays of inner products g and of similarities s;
        returns an array of their shape. By default the loss is (c s - g)^2, which needs no n x m work per bit.
    terms : callable, optional
        Q and p of a bit in place of those of pairs, from the codes, the bits that are fixed, and the bit.
    linear : ndarray, shape (m, c), optional
        Added to the linear term of each bit.
    weights : ndarray, shape (m,), optional
        Weights of the sampled points; a pair of them has the product, a pair with another point that of its own. 1 by
        default.
    context : {"before", "others"}
        The bits that are fixed while one is solved: those before it (as in the paper), or all others, those after it at
        their current values; then ``"local"`` and ``"exact"`` never increase the total loss.

    Returns
    -------
    ndarray of int8, shape (m, c)
        The new codes.
    """
    if context not in get_args(Context):
        raise UnknownName("context", context, get_args(Context))
    current, others, among, across = _checked_blocks(B_omega, B_gamma, S_omega, S_gamma)
    codes = current.copy()
    n_bits = codes.shape[1]
    # For the L2 loss the n x m work is done once.
    wanted, pull, gram = n_bits * among, n_bits * (across.T @ others), others.T @ others
    for bit in range(n_bits):
        known = [*range(bit), *(range(bit + 1, n_bits) if context == "others" else ())]
        fixed = codes[:, known]
        # Q and p of a bit, the text after Eq. (4). They weigh as Eq. (3) does: with all other bits fixed, a pair's loss
        # is constant + slope * b_i b_j, b'Qb sums it over ordered pairs in Omega and b'p once over Omega x Gamma.
        if terms is not None:
            Q, p = terms(codes, known, bit)
        elif slope is None:
            Q, p = -2 * (wanted - fixed @ fixed.T), -2 * (pull[:, bit] - fixed @ gram[known, bit])
        else:  # any pair loss (Lin et al., ICCV 2013, which the paper follows)
            Q = _checked_slopes(slope, fixed @ fixed.T, among)
            p = _checked_slopes(slope, others[:, known] @ fixed.T, across).T @ others[:, bit]
        np.fill_diagonal(Q, 0)
        if weights is not None:
            Q, p = Q * np.outer(weights, weights), p * weights
        if linear is not None:
            p = p + linear[:, bit]
        codes[:, bit] = solve(Q, p, solver=solver, rng=rng, start=codes[:, bit])
    return codes.astype(np.int8)


def full_objective(B_omega: NDArray[Any], B_gamma: NDArray[Any], S_omega: NDArray[Any], S_gamma: NDArray[Any]) -> float:
    """Return the sum of (c S - B B')^2 over all pairs with a sampled point."""
    codes, others, among, across = _checked_blocks(B_omega, B_gamma, S_omega, S_gamma)
    n_bits = codes.shape[1]
    # Eq. (3), the L2 loss times c^2: pairs of Omega x Gamma once, those of Omega x Omega ordered and with the diagonal.
    return float(
        np.square(n_bits * across - others @ codes.T).sum() + np.square(n_bits * among - codes @ codes.T).sum()
    )


def _values(Q: _Array, p: _Array, rows: _Array) -> _Array:
    """Return x'Qx + x'p for every row x."""
    values: _Array = ((rows @ Q + p) * rows).sum(axis=1)
    return values


def _exponent(array: _Array) -> int:
    """Return the smallest e such that all entries are below 2^e."""
    return int(np.frexp(np.abs(array).max())[1])


def _by_clustering(Q: _Array, p: _Array, rng: np.random.Generator) -> _Array:
    """Return the best of m + 1 balanced vectors, each a cluster around one point."""
    # Substituting b = 2z - 1 gives z'(4Q)z + z'(2p - 4Q1) + constant with z in {0, 1}^m. A dummy point that every
    # subset holds carries the linear term, half of it on each side of the border: with M = [[4Q, p - 2Q1], [.', 0]],
    # the sum of M inside a subset is the objective up to that constant.
    inside, border = 4 * Q, p - 2 * Q.sum(axis=1)
    m = len(p)
    # Squared distances are 2 lambda + 2 M_ij, so M orders the points in the same way, except for the seed itself, at
    # distance 0. The last row is the dummy's. A stable sort of shuffled points breaks ties by `rng`.
    distance = np.vstack([inside, border])
    np.fill_diagonal(distance, -np.inf)
    shuffle = rng.permutation(m)
    order = np.argsort(distance[np.ix_(np.append(shuffle, m), shuffle)], axis=1, kind="stable")
    # A subset has H = round((m + 1) / 2) points, halves rounded up, so that m // 2 remain without the dummy: exactly
    # half of an even m, the smaller part of an odd one.
    members = np.zeros(distance.shape)
    np.put_along_axis(members, shuffle[order[:, : m // 2]], 1, axis=1)
    best: _Array = members[np.argmin(_values(inside, 2 * border, members))]
    return 2 * best - 1


def _by_descent(Q: _Array, p: _Array, rng: np.random.Generator, start: _Array | None, n_restarts: int) -> _Array:
    """Return the best result of 1-flip descents."""
    starts = 2.0 * rng.integers(0, 2, (n_restarts + (start is None), len(p))) - 1
    if start is not None:
        starts = np.vstack([start, starts])
    ends = starts.astype(np.float64)
    for b in ends:
        gradient = 2 * (Q @ b) + p
        while True:
            gains = b * gradient  # a flip of entry i lowers the objective by twice gains[i]
            i = int(np.argmax(gains))
            if gains[i] <= 0:
                break
            b[i] = -b[i]
            gradient += 4 * b[i] * Q[i]
    best: _Array = ends[np.argmin(_values(Q, p, ends))]
    return best


def _by_enumeration(Q: _Array, p: _Array) -> _Array:
    """Return the best of all 2^m vectors, as pairs of enumerated halves."""
    m = len(p)
    if m > MAX_EXACT:
        raise InvalidInput(
            f"Solver 'exact' takes at most {MAX_EXACT} variables, got {m}; choose 'local' or 'clustering'."
        )
    half = m // 2
    left, right = _all_signs(half), _all_signs(m - half)
    values = 2 * (left @ Q[:half, half:] @ right.T)
    values += _values(Q[:half, :half], p[:half], left)[:, None]
    values += _values(Q[half:, half:], p[half:], right)
    row, column = divmod(int(np.argmin(values)), len(right))
    return np.concatenate([left[row], right[column]])


def _all_signs(n: int) -> _Array:
    """Return all vectors of n signs as rows."""
    return np.where((np.arange(2**n)[:, None] >> np.arange(n)) & 1, 1.0, -1.0)


def _checked_slopes(slope: Slope, inner_products: _Array, similarities: _Array) -> _Array:
    """Return a copy of the slopes (a callable may return its input), or raise."""
    slopes = np.array(slope(inner_products, similarities), np.float64)
    if slopes.shape != similarities.shape:
        raise InvalidInput(f"slope must return an array of shape {similarities.shape}; got {slopes.shape}.")
    return slopes


def _checked_problem(Q: NDArray[Any], p: NDArray[Any]) -> tuple[_Array, _Array]:
    """Return Q and p as float64, or raise."""
    quadratic, linear = np.asarray(Q, np.float64), np.asarray(p, np.float64)
    if linear.ndim != 1 or linear.size == 0 or quadratic.shape != (linear.size, linear.size):
        raise InvalidInput(
            f"Q must have shape (m, m) and p (m,), m >= 1; got shapes {quadratic.shape} and {linear.shape}."
        )
    _check_finite("p", linear)
    _check_symmetric("Q", quadratic)
    if quadratic.diagonal().any():
        raise InvalidInput("Q must have a zero diagonal: b_i b_i is 1, so it only adds a constant; set it to 0.")
    return quadratic, linear


def _checked_blocks(
    B_omega: NDArray[Any], B_gamma: NDArray[Any], S_omega: NDArray[Any], S_gamma: NDArray[Any]
) -> tuple[_Array, _Array, _Array, _Array]:
    """Return the four blocks as float64 (sums of int8 would overflow), or raise."""
    shapes = tuple(np.shape(block) for block in (B_omega, B_gamma, S_omega, S_gamma))
    (m, c), n = (shapes[0] if len(shapes[0]) == 2 else (0, 0)), (shapes[1] or (0,))[0]
    if not (m and c) or shapes != ((m, c), (n, c), (m, m), (n, m)):
        raise InvalidInput(
            "B_omega, B_gamma, S_omega, S_gamma must have shapes (m, c), (n, c), (m, m), (n, m), m and c >= 1; "
            f"got {', '.join(map(str, shapes))}."
        )
    among, across = np.asarray(S_omega, np.float64), np.asarray(S_gamma, np.float64)
    _check_symmetric("S_omega", among)
    _check_finite("S_gamma", across)
    return _checked_signs("B_omega", B_omega, (m, c)), _checked_signs("B_gamma", B_gamma, (n, c)), among, across


def _checked_signs(name: str, signs: NDArray[Any], shape: tuple[int, ...]) -> _Array:
    """Return -1 and +1 as float64, or raise."""
    values = np.asarray(signs, np.float64)
    if values.shape != shape:
        raise InvalidInput(f"{name} must have shape {shape}; got {values.shape}.")
    if not (np.abs(values) == 1).all():
        raise InvalidInput(f"{name} must contain only -1 and +1; found {values[np.abs(values) != 1][0]:g}.")
    return values


def _check_finite(name: str, array: _Array) -> None:
    if not np.isfinite(array).all():
        raise InvalidInput(f"{name} contains NaN or infinity; every entry must be finite.")


def _check_symmetric(name: str, matrix: _Array) -> None:
    """Raise unless the matrix is finite and symmetric up to rounding."""
    _check_finite(name, matrix)
    if np.abs(matrix - matrix.T).max() > _SYMMETRY * np.abs(matrix).max():
        raise InvalidInput(f"{name} must be symmetric; give ({name} + {name}') / 2.")
