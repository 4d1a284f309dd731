"""Solve the binary quadratic programmes of discrete coding: what each solver reaches, and how fast.

First all bits of 100 sampled points among 5,000 of 10 classes, alternating with the other points' codes, without a
network; then single bits beside simulated annealing (``pip install dwave-samplers``).

Usage: python benchmarks/bqp.py [NUMBER OF SEEDS]
"""

import importlib
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ddsh.methods._bqp import Context, Solver, code_omega, full_objective, objective, solve

Array: TypeAlias = NDArray[np.float64]
Problem: TypeAlias = tuple[Array, Array]

N_CLASSES, N_POINTS, N_SAMPLED = 10, 5000, 100
LABELS = np.repeat(np.arange(N_CLASSES), N_POINTS // N_CLASSES)
SAMPLINGS, ALTERNATIONS = 10, 3
VARIANTS: tuple[tuple[Solver, Context], ...] = (("clustering", "before"), ("local", "before"), ("local", "others"))
BALANCE = 1 / (N_CLASSES - 1)
"""Similar over dissimilar pairs: with -BALANCE for dissimilar pairs the loss can reach 0, with -1 it cannot."""


@dataclass(frozen=True)
class Reached:
    """What a run reached: squared errors divided by c^2, and the seconds of one coding of the sampled points."""

    sampled: float
    all_pairs: float
    seconds: float


def similarity(rows: NDArray[np.intp], columns: NDArray[np.intp], penalty: float) -> Array:
    """Return 1 where two points share the class, else -penalty."""
    return np.where(LABELS[rows][:, None] == LABELS[columns], 1.0, -penalty)


def all_pairs_error(codes: Array, penalty: float) -> float:
    """Return mean((c S - B B')^2) / c^2 over all pairs; S = (1 + penalty) Y Y' - penalty needs no n x n matrix."""
    n_bits = codes.shape[1]
    members = np.eye(N_CLASSES)[LABELS]
    counts = members.sum(axis=0)
    squares = (counts**2).sum() + penalty**2 * (N_POINTS**2 - (counts**2).sum())
    crossed = (1 + penalty) * np.square(members.T @ codes).sum() - penalty * np.square(codes.sum(axis=0)).sum()
    total = n_bits**2 * squares - 2 * n_bits * crossed + np.square(codes.T @ codes).sum()
    return float(total / (N_POINTS * n_bits) ** 2)


def alternate(n_bits: int, penalty: float, solver: Solver, context: Context, seed: int) -> tuple[Array, Reached]:
    """Learn codes of all points: new columns are sampled, then sampled and other codes take turns."""
    rng = np.random.default_rng(seed)
    codes = rng.choice([-1.0, 1.0], (N_POINTS, n_bits))
    seconds = 0.0
    for _ in range(SAMPLINGS):
        order = rng.permutation(N_POINTS)
        omega, gamma = order[:N_SAMPLED], order[N_SAMPLED:]
        among, across = similarity(omega, omega, penalty), similarity(gamma, omega, penalty)
        for _ in range(ALTERNATIONS):
            start = time.perf_counter()
            codes[omega] = code_omega(
                codes[omega], codes[gamma], among, across, solver=solver, rng=rng, context=context
            )
            seconds += time.perf_counter() - start
            pull = across @ codes[omega]
            codes[gamma] = np.where(pull == 0, codes[gamma], np.sign(pull))
    sampled = full_objective(codes[omega], codes[gamma], among, across) / (N_POINTS * N_SAMPLED * n_bits**2)
    return codes, Reached(sampled, all_pairs_error(codes, penalty), seconds / (SAMPLINGS * ALTERNATIONS))


def compare_coding(n_seeds: int) -> None:
    """Print what each variant reaches, averaged over paired seeds."""
    print(f"All bits, {N_SAMPLED} of {N_POINTS} points, {SAMPLINGS} x {ALTERNATIONS} alternations, {n_seeds} seeds")
    print("penalty  bits  solver/context      sampled columns     all pairs           ms per coding")
    for penalty in (BALANCE, 1.0):
        for n_bits in (12, 24, 48):
            for solver, context in VARIANTS:
                runs = [alternate(n_bits, penalty, solver, context, seed)[1] for seed in range(n_seeds)]
                figures = np.array([(run.sampled, run.all_pairs) for run in runs])
                cells = [f"{mean:.4f} +- {std:.4f}" for mean, std in zip(figures.mean(0), figures.std(0), strict=True)]
                best = 1000 * min(run.seconds for run in runs)
                print(f"{penalty:7.3f}  {n_bits:4}  {solver + '/' + context:18}  {'    '.join(cells)}    {best:.1f}")


def bit_problem(codes: Array, omega: NDArray[np.intp], gamma: NDArray[np.intp], bit: int) -> Problem:
    """Return Q and p of a bit with the bits before it fixed, straight from the formula."""
    n_bits, known = codes.shape[1], codes[:, :bit]
    Q = -2 * (n_bits * similarity(omega, omega, BALANCE) - known[omega] @ known[omega].T)
    np.fill_diagonal(Q, 0)
    left = n_bits * similarity(gamma, omega, BALANCE) - known[gamma] @ known[omega].T
    return Q, -2 * left.T @ codes[gamma, bit]


def spin_glass(rng: np.random.Generator) -> Problem:
    """Return a random real problem, far harder than a bit of a code."""
    upper = np.triu(rng.normal(size=(N_SAMPLED, N_SAMPLED)), 1)
    return upper + upper.T, rng.normal(size=N_SAMPLED)


def first_bit_without_others(rng: np.random.Generator) -> Problem:
    """Return the quadratic term of a bit alone: without the pull of the other points every symmetry remains."""
    order = rng.permutation(N_POINTS)
    codes = rng.choice([-1.0, 1.0], (N_POINTS, 24))
    Q, _ = bit_problem(codes, order[:N_SAMPLED], order[N_SAMPLED:], 12)
    return Q, np.zeros(N_SAMPLED)


def bit_of_random_codes(rng: np.random.Generator) -> Problem:
    """Return a bit as it is at the start of learning."""
    order = rng.permutation(N_POINTS)
    codes = rng.choice([-1.0, 1.0], (N_POINTS, 24))
    return bit_problem(codes, order[:N_SAMPLED], order[N_SAMPLED:], 12)


def bit_of_learned_codes(rng: np.random.Generator) -> Problem:
    """Return a bit as it is later, for a new sample of points."""
    codes, _ = alternate(24, BALANCE, "local", "before", int(rng.integers(2**31)))
    order = rng.permutation(N_POINTS)
    return bit_problem(codes, order[:N_SAMPLED], order[N_SAMPLED:], 12)


def annealing(n_reads: int) -> Callable[[Problem, np.random.Generator], Callable[[], Array]] | None:
    """Return a maker of simulated annealing calls (the model is built outside the clock), None without the package."""
    try:
        sampler = importlib.import_module("dwave.samplers").SimulatedAnnealingSampler()
        dimod = importlib.import_module("dimod")
    except ImportError:
        return None

    def prepare(problem: Problem, rng: np.random.Generator) -> Callable[[], Array]:
        Q, p = problem
        rows, columns = np.triu_indices(len(p), 1)
        couplings = rows, columns, 2 * Q[rows, columns]
        model: Any = dimod.BinaryQuadraticModel.from_numpy_vectors(p, couplings, 0.0, "SPIN")
        seed = int(rng.integers(2**31))

        def call() -> Array:
            answer = sampler.sample(model, num_reads=n_reads, seed=seed).first.sample
            return np.array([answer[i] for i in range(len(p))], np.float64)

        return call

    return prepare


def contenders() -> Iterator[tuple[str, Callable[[Problem, np.random.Generator], Callable[[], Any]]]]:
    """Yield a name and a maker of calls for every way to solve one problem."""
    yield "clustering", lambda problem, rng: lambda: solve(*problem, solver="clustering", rng=rng)
    yield "local", lambda problem, rng: lambda: solve(*problem, solver="local", rng=rng)
    yield "local, 20 restarts", lambda problem, rng: lambda: solve(*problem, solver="local", rng=rng, n_restarts=20)
    for n_reads in (1, 10):
        prepare = annealing(n_reads)
        if prepare is not None:
            yield f"annealing, {n_reads} read{'s' * (n_reads > 1)}", prepare


def measure(problem: Problem, seed: int) -> dict[str, tuple[float, float]]:
    """Return objective and seconds of every contender."""
    found = {}
    for name, prepare in contenders():
        call = prepare(problem, np.random.default_rng(seed))
        start = time.perf_counter()
        answer = call()
        seconds = time.perf_counter() - start
        found[name] = objective(*problem, answer), seconds
    return found


def compare_single_bits(n_seeds: int) -> None:
    """Print objective, gap to the best of all contenders, and time."""
    if annealing(1) is None:
        print("Simulated annealing is skipped: dwave-samplers is not installed (pip install dwave-samplers).")
    for make in (bit_of_random_codes, bit_of_learned_codes, first_bit_without_others, spin_glass):
        runs = [measure(make(np.random.default_rng(seed)), seed) for seed in range(n_seeds)]
        best = np.array([min(value for value, _ in run.values()) for run in runs])
        print(f"\nOne bit, m = {N_SAMPLED}, {make.__name__.replace('_', ' ')}, {n_seeds} seeds")
        for name in runs[0]:
            values, seconds = np.array([run[name] for run in runs]).T
            gap = 100 * ((values - best) / np.abs(best)).mean()
            print(
                f"  {name:20}  objective {values.mean():14.1f}  gap {gap:6.3f} %  {1000 * np.median(seconds):8.2f} ms"
            )


def main() -> None:
    """Run both comparisons."""
    n_seeds = int(sys.argv[1]) if len(sys.argv) > 1 else 5
    compare_coding(n_seeds)
    print()
    compare_single_bits(n_seeds)


if __name__ == "__main__":
    main()
