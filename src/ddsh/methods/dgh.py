"""DGH: discrete graph hashing."""

# ruff: noqa: N803 -- arguments carry the paper's letters

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from ddsh.errors import InvalidInput
from ddsh.labels import Labels
from ddsh.methods._anchor_graph import (
    AnchorWeights,
    anchor_weights,
    cluster_anchors,
    graph_directions,
    inverse_degrees,
    nearest_width,
)
from ddsh.methods.base import Hasher, MethodCard, Outputs

__all__ = ["DGH"]

_Floats: TypeAlias = NDArray[np.float64]


class DGH(Hasher):
    """Discrete graph hashing: codes of -1 and +1 that are smooth on a graph.

    Maximises tr(B'AB) + rho tr(B'Y) over codes B and real matrices Y with 1'Y = 0 and Y'Y = n I, where A is the anchor
    graph and rho keeps the codes near to balanced and uncorrelated ones. B and Y are solved in turn.

    Parameters
    ----------
    n_bits : int
        Code length; less than the number of anchors.
    rho : float
        Weight of balance and decorrelation; the default scored best on validation.
    n_rounds : int
        Maximum number of alternations; it stops when no code changes.
    n_steps : int
        Maximum number of steps on B per alternation.
    n_anchors : int
        Number of clusters; all distinct items are anchors if there are not more.
    n_nearest : int
        Number of nearest anchors that an item is joined to.
    n_iterations : int
        Maximum number of iterations of k-means.
    seed : int
        Random seed of k-means.

    Attributes
    ----------
    anchors_ : ndarray, shape (m, d)
        The anchors.
    width_ : float
        Width of the kernel exp(-r^2 / width^2): the mean distance of a training item to its farthest anchor.
    projection_ : ndarray, shape (m, n_bits)
        Lambda^-1 Z'B, the mean codes of the items joined to each anchor.
    objectives_ : ndarray
        tr(B'AB) + rho tr(B'Y) before the first and after each alternation, divided by n; it never decreases.

    References
    ----------
    Liu, W., Mu, C., Kumar, S. and Chang, S.-F. "Discrete Graph Hashing." NIPS 2014. Starts from the smoothest functions
    on the graph (the paper's DGH-I).
    """

    card = MethodCard(
        name="dgh",
        title="Discrete graph hashing",
        authors="Liu, Mu, Kumar, Chang",
        venue="NIPS",
        year=2014,
        supervision="unsupervised",
        inputs="features",
        deviations=("starts from the graph's eigenvectors (DGH-I); no random rotations of them (DGH-R)",),
    )

    def __init__(
        self,
        n_bits: int = 32,
        *,
        rho: float = 0.1,
        n_rounds: int = 20,
        n_steps: int = 300,
        n_anchors: int = 300,
        n_nearest: int = 3,
        n_iterations: int = 20,
        seed: int = 0,
    ) -> None:
        self.n_bits = n_bits
        self.rho = rho
        self.n_rounds = n_rounds
        self.n_steps = n_steps
        self.n_anchors = n_anchors
        self.n_nearest = n_nearest
        self.n_iterations = n_iterations
        self.seed = seed

    def _check_parameters(self) -> None:
        super()._check_parameters()
        self._check_at_least_one("n_rounds", "n_steps", "n_anchors", "n_nearest", "n_iterations")
        if not self.rho >= 0:
            raise InvalidInput(f"rho must be 0 or more; got {self.rho}.")

    def _fit(self, features: _Floats, labels: Labels | None) -> None:
        anchors = cluster_anchors(features, self.n_anchors, self.n_iterations, self.seed)
        width = nearest_width(features, anchors, self.n_nearest)
        Z = anchor_weights(features, anchors, self.n_nearest, width)
        Y: _Floats = Z @ graph_directions("dgh", Z, self.n_bits)
        B = np.where(Y > 0, 1.0, -1.0)
        rng = np.random.Generator(np.random.PCG64(self.seed))
        objectives = [objective(B, Y, Z, self.rho)]
        for _ in range(self.n_rounds):
            before = B
            B = solve_codes(B, Y, Z, self.rho, self.n_steps)
            Y = nearest_balanced(B, rng)
            objectives.append(objective(B, Y, Z, self.rho))
            if np.array_equal(B, before):
                break
        self.anchors_, self.width_, self.objectives_ = anchors, width, np.array(objectives) / len(features)
        self.projection_ = inverse_degrees(Z)[:, None] * (Z.T @ B)

    def _project(self, features: _Floats) -> Outputs:
        # The code of a new item x is sgn(B'Z Lambda^-1 z(x)).
        outputs: Outputs = anchor_weights(features, self.anchors_, self.n_nearest, self.width_) @ self.projection_
        return outputs


def smooth(B: _Floats, Z: AnchorWeights) -> _Floats:
    """Return AB for the anchor graph A = Z Lambda^-1 Z'."""
    product: _Floats = Z @ (inverse_degrees(Z)[:, None] * (Z.T @ B))
    return product


def objective(B: _Floats, Y: _Floats, Z: AnchorWeights, rho: float) -> float:
    """Return tr(B'AB) + rho tr(B'Y)."""
    return float(np.vdot(B, smooth(B, Z) + rho * Y))


def solve_codes(B: _Floats, Y: _Floats, Z: AnchorWeights, rho: float, n_steps: int) -> _Floats:
    """Increase the objective in B by signed gradient steps, until no code changes."""
    for _ in range(n_steps):
        # B <- sgn(2AB + rho Y), the maximum of a linear lower bound; a zero keeps the bit.
        gradient = 2 * smooth(B, Z) + rho * Y
        new = np.where(gradient == 0, B, np.sign(gradient))
        if np.array_equal(new, B):
            break
        B = new
    return B


def nearest_balanced(B: _Floats, rng: np.random.Generator) -> _Floats:
    """Return the Y that maximises tr(B'Y) subject to 1'Y = 0 and Y'Y = n I.

    Parameters
    ----------
    B : ndarray of -1 and +1, shape (n, c)
        The codes; c is less than n.
    rng : Generator
        Source of the directions that are missing if bits are equal, opposite or constant.
    """
    n_items, n_bits = B.shape
    centred = B - B.mean(axis=0)
    values, vectors = np.linalg.eigh(centred.T @ centred)
    kept = values > n_items * np.finfo(np.float64).eps * n_bits
    U = centred @ vectors[:, kept] / np.sqrt(values[kept])
    # Any orthonormal columns that are orthogonal to U and 1 complete it.
    known = np.column_stack([np.full(n_items, n_items**-0.5), U])
    basis, _ = np.linalg.qr(np.column_stack([known, rng.standard_normal((n_items, n_bits - U.shape[1]))]))
    full = np.column_stack([basis[:, known.shape[1] :], U])
    # Y = sqrt(n) [U U-] [V V-]', where JB = U Sigma V'; the eigenvalues are in increasing order, zeros first.
    Y: _Floats = np.sqrt(n_items) * full @ vectors.T
    return Y
