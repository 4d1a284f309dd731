"""Paired significance tests of results, per query and over seeds."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from ddsh.errors import InvalidInput

__all__ = ["Comparison", "ScoredRun", "compare"]

_RESAMPLES = 9999
_BLOCK = 500
_LEVEL = 0.05


class ScoredRun(Protocol):
    """A run that can be compared, such as a :class:`~ddsh.evaluation.Result`."""

    @property
    def label(self) -> str:
        """Name of its row."""

    @property
    def n_bits(self) -> int:
        """Code length."""

    @property
    def seed(self) -> int:
        """Seed of its split."""

    @property
    def split(self) -> str:
        """Fingerprint of its split."""

    @property
    def map(self) -> float:
        """Mean average precision."""

    @property
    def average_precision(self) -> NDArray[np.float64] | None:
        """Average precision of each query, if known."""


@dataclass(frozen=True)
class Comparison:
    """The difference in mean average precision between two methods, with paired tests.

    Parameters
    ----------
    first, second : str
        Labels of the methods.
    n_bits : int
        Code length.
    seeds : tuple of int
        Seeds that both have, on the same splits.
    difference : float
        Mean over seeds of MAP of the first minus MAP of the second.
    n_queries : int
        Pairs of queries that were compared; 0 where a result does not have the AP of each query.
    query_p : float or None
        p-value of a randomisation test on the differences in AP per query.
    interval : tuple of float or None
        95% confidence interval of the difference, from the same queries.
    seed_p : float or None
        p-value of a paired t-test on the MAP of each seed; None for one seed.
    """

    first: str
    second: str
    n_bits: int
    seeds: tuple[int, ...]
    difference: float
    n_queries: int
    query_p: float | None
    interval: tuple[float, float] | None
    seed_p: float | None

    @property
    def is_tested(self) -> bool:
        """Whether a test could be made: results with the AP of each query, or several seeds."""
        return self.query_p is not None or self.seed_p is not None

    @property
    def is_significant(self) -> bool:
        """Whether every test that could be made is below 0.05, and there was one."""
        found = [p for p in (self.query_p, self.seed_p) if p is not None]
        return bool(found) and max(found) < _LEVEL


def compare(first: Sequence[ScoredRun], second: Sequence[ScoredRun]) -> list[Comparison]:
    """Compare two methods at each code length, on the splits that both were run on.

    Parameters
    ----------
    first, second : sequence of Result
        Results of one method each, such as all runs of one row of an experiment.

    Returns
    -------
    list of Comparison
        One per code length.

    References
    ----------
    Smucker, M. D., Allan, J. and Carterette, B. "A Comparison of Statistical Significance Tests for Information
    Retrieval Evaluation." CIKM 2007: the randomisation test on queries.
    """
    theirs = {(result.split, result.n_bits): result for result in second}
    pairs = [(one, theirs[one.split, one.n_bits]) for one in first if (one.split, one.n_bits) in theirs]
    if not pairs:
        raise InvalidInput("The two have no code length and split in common, so that they cannot be compared.")
    found = []
    for n_bits in sorted({one.n_bits for one, _ in pairs}):
        runs = [(one, other) for one, other in pairs if one.n_bits == n_bits]
        by_seed = np.array([one.map - other.map for one, other in runs])
        queries = [
            one.average_precision - other.average_precision
            for one, other in runs
            if one.average_precision is not None and other.average_precision is not None
        ]
        differences = np.concatenate(queries) if len(queries) == len(runs) else np.empty(0)
        query_p, interval = _query_test(differences) if len(differences) > 1 else (None, None)
        found.append(
            Comparison(
                first=runs[0][0].label,
                second=runs[0][1].label,
                n_bits=n_bits,
                seeds=tuple(sorted(one.seed for one, _ in runs)),
                difference=float(by_seed.mean()),
                n_queries=len(differences),
                query_p=query_p,
                interval=interval,
                seed_p=_seed_test(by_seed),
            )
        )
    return found


def _query_test(differences: NDArray[np.float64]) -> tuple[float, tuple[float, float]]:
    """Return the p-value of random sign changes, and Student's interval of the mean."""
    rng = np.random.default_rng(0)
    n, total = len(differences), float(differences.sum())
    n_extreme = 0
    for start in range(0, _RESAMPLES, _BLOCK):
        n_draws = min(_BLOCK, _RESAMPLES - start)
        kept = np.unpackbits(rng.integers(0, 256, (n_draws, (n + 7) // 8), np.uint8), axis=1, count=n)
        sums = 2 * (kept.astype(np.float64) @ differences) - total  # the sign of what is not kept changes
        # Sums of the same numbers differ by rounding: a draw as extreme as the data counts as such.
        n_extreme += int(np.count_nonzero(np.abs(sums) >= abs(total) - 1e-12 * n))
    half = float(stats.sem(differences) * stats.t.ppf(0.975, n - 1))
    return (n_extreme + 1) / (_RESAMPLES + 1), (total / n - half, total / n + half)


def _seed_test(differences: NDArray[np.float64]) -> float | None:
    """Return the p-value of a paired t-test; None where it says nothing."""
    if len(differences) < 2:
        return None
    if np.ptp(differences) == 0:
        return 1.0 if differences[0] == 0 else 0.0
    return float(stats.ttest_1samp(differences, 0.0).pvalue)
