"""Held-out MAP of feature methods beside plain second implementations.

Each method is written a second time in a few lines, from its paper's definitions and without the library: loops and
dense matrices where the library has closed forms or sparse ones. Both learn from the same features of CIFAR-10's
training images, from the same anchors or pivots where there are any; images that the protocol holds out are queries and
database. faiss has an ITQ of its own.

    python benchmarks/independent.py --root DATA --cache-dir FEATURES
"""

# ruff: noqa: N803 -- the papers' letters

import argparse
from collections.abc import Callable
from typing import Any, TypeAlias

import faiss
import numpy as np
from numpy.typing import NDArray
from scipy import linalg
from scipy.spatial.distance import cdist
from sklearn.cluster import KMeans

import ddsh
from ddsh.backbones import Backbone
from ddsh.codes import BinaryCodes
from ddsh.datasets.protocols import get_protocol
from ddsh.images import SomeImages
from ddsh.methods import get_method

Floats: TypeAlias = NDArray[np.float64]
Encoder: TypeAlias = Callable[[Floats], Floats]


def principal(X: Floats, n_bits: int) -> tuple[Floats, Floats]:
    """Return the mean and the principal directions by a singular value decomposition."""
    mean = X.mean(0)
    return mean, np.linalg.svd(X - mean, full_matrices=False)[2][:n_bits].T


def spectral_hashing(X: Floats, y: Floats, n_bits: int, seed: int) -> Encoder:
    """Enumerate functions of every side of the box with all numbers of half waves, and keep the smoothest."""
    mean, P = principal(X, n_bits)
    V = (X - mean) @ P
    low, high = V.min(0), V.max(0)
    modes = [
        (waves * np.pi / (high[side] - low[side]), side) for side in range(n_bits) for waves in range(1, n_bits + 1)
    ]
    kept = sorted(modes)[:n_bits]
    return lambda Z: np.stack([np.sin(np.pi / 2 + w * ((Z - mean) @ P[:, k] - low[k])) for w, k in kept], 1)


def equal_variances(X: Floats, y: Floats, n_bits: int, seed: int) -> Encoder:
    """Rotate pairs of randomly rotated principal components until each has the mean variance (IsoHash)."""
    mean, P = principal(X, n_bits)
    P = P @ np.linalg.qr(np.random.default_rng(seed).normal(size=(n_bits, n_bits)))[0]
    C = P.T @ np.cov((X - mean).T, bias=True) @ P
    goal = np.trace(C) / n_bits
    while np.abs(C.diagonal() - goal).max() > 1e-9 * goal:
        i, j = int(C.diagonal().argmax()), int(C.diagonal().argmin())
        # The angle at which the first of the two has the mean variance: a root of a quadratic in its tangent.
        t = np.roots([C[j, j] - goal, 2 * C[i, j], C[i, i] - goal]).real.min()
        cosine = 1 / np.sqrt(1 + t * t)
        G = np.eye(n_bits)
        G[[i, j], [i, j]], G[j, i], G[i, j] = cosine, t * cosine, -t * cosine
        P, C = P @ G, G.T @ C @ G
    return lambda Z: (Z - mean) @ P


def faiss_itq(X: Floats, y: Floats, n_bits: int, seed: int) -> Encoder:
    """Use faiss's own ITQ."""
    transform = faiss.ITQTransform(X.shape[1], n_bits, True)
    transform.itq.seed = seed + 1
    transform.train(np.ascontiguousarray(X, np.float32))
    return lambda Z: transform.apply(np.ascontiguousarray(Z, np.float32)).astype(np.float64)


def anchor_graph_hashing(X: Floats, y: Floats, n_bits: int, seed: int) -> Encoder:
    """Take eigenvectors of the dense graph matrix, and thresholds of the second layer by a search."""
    anchors = KMeans(300, n_init=1, max_iter=20, random_state=seed).fit(X).cluster_centers_

    def weights(Z: Floats) -> Floats:
        squares = cdist(Z, anchors, "sqeuclidean")
        kernel = np.exp(-squares / width**2)
        kernel[squares > np.sort(squares, 1)[:, 4:5]] = 0
        normalised: Floats = kernel / kernel.sum(1, keepdims=True)
        return normalised

    width = float(np.sqrt(np.sort(cdist(X, anchors, "sqeuclidean"), 1)[:, 4]).mean())
    W = weights(X)
    A = W / W.sum(0) @ W.T
    _, vectors = linalg.eigh(A, subset_by_index=(len(X) - n_bits // 2 - 1, len(X) - 2))
    Y = vectors[:, ::-1]
    weight_of = np.linalg.lstsq(W, Y, rcond=None)[0]
    thresholds = []
    for column in Y.T:
        above = column > 0
        found = []
        for b_plus in np.quantile(column[above], np.linspace(0.02, 0.98, 49)):
            b_minus = ((column - b_plus) * above - column * ~above).sum() / -max((~above).sum(), 1)
            f = np.where(above, column - b_plus, b_minus - column)
            found.append((f @ f - f @ (A @ f), b_plus, b_minus))
        thresholds.append(min(found)[1:])
    above, below = np.array(thresholds).T

    def encode(Z: Floats) -> Floats:
        values = weights(Z) @ weight_of
        return np.hstack([values, np.where(values > 0, values - above, below - values)])

    return encode


def spherical_hashing(X: Floats, y: Floats, n_bits: int, seed: int) -> Encoder:
    """Move the centres of the spheres pair by pair."""
    rng = np.random.default_rng(seed)
    centres = np.stack([X[rng.integers(len(X), size=5)].mean(0) for _ in range(n_bits)])
    for _ in range(100):
        distances = cdist(X, centres)
        radii = np.median(distances, axis=0)
        inside = (distances <= radii).astype(float)
        overlap, quarter = inside.T @ inside, len(X) / 4
        pairs = overlap[~np.eye(n_bits, dtype=bool)]
        if np.abs(pairs - quarter).mean() <= 0.1 * quarter and pairs.std() <= 0.15 * quarter:
            break
        moved = centres.copy()
        for i in range(n_bits):
            for j in range(n_bits):
                if i != j:
                    moved[i] += (overlap[i, j] - quarter) / quarter / 2 * (centres[i] - centres[j]) / n_bits
        centres = moved
    radii = np.median(cdist(X, centres), axis=0)
    return lambda Z: radii - cdist(Z, centres)


def kernel_supervised_hashing(X: Floats, y: Floats, n_bits: int, seed: int) -> Encoder:
    """Learn bits from the residue of S by Nesterov's gradient method on the dense matrix."""
    rng = np.random.default_rng(seed)
    anchors = X[rng.choice(len(X), 300, replace=False)]
    squares = cdist(X, anchors, "sqeuclidean")
    width = squares.mean()
    K = np.exp(-squares / width)
    mean = K.mean(0)
    K = K - mean
    R = n_bits * np.where(y[:, None] == y, 1.0, -1.0)
    metric = K.T @ K + 1e-8 * np.eye(300)
    columns = []
    for _ in range(n_bits):
        _, vectors = linalg.eigh(K.T @ R @ K, metric, subset_by_index=(299, 299))
        start = vectors[:, 0] * np.sqrt(len(X) / (vectors[:, 0] @ metric @ vectors[:, 0]))
        a, previous, momentum, step = start, start, 1.0, 1.0
        for _ in range(100):
            after = (1 + np.sqrt(1 + 4 * momentum**2)) / 2
            point = a + (momentum - 1) / after * (a - previous)
            b = np.tanh(K @ point / 2)
            loss, gradient = -(b @ R @ b), -K.T @ ((R @ b) * (1 - b * b))
            while True:
                moved = point - step * gradient / len(X)
                h = np.tanh(K @ moved / 2)
                if -(h @ R @ h) <= loss - step / 2 * gradient @ gradient / len(X) or step < 1e-12:
                    break
                step /= 2
            a, previous, momentum, step = moved, a, after, 2 * step
        candidates = [(c, np.where(K @ c > 0, 1.0, -1.0)) for c in (a, start)]
        chosen, bits = max(candidates, key=lambda pair: pair[1] @ R @ pair[1])
        columns.append(chosen)
        R = R - np.outer(bits, bits)
    P = np.stack(columns, 1)
    return lambda Z: (np.exp(-cdist(Z, anchors, "sqeuclidean") / width) - mean) @ P


SECOND = {
    "sh": spectral_hashing,
    "isohash": equal_variances,
    "itq": faiss_itq,
    "agh": anchor_graph_hashing,
    "sph": spherical_hashing,
    "ksh": kernel_supervised_hashing,
}


def main() -> None:
    """Print one line per method and code length: the MAP of each seed, the library's and the other's."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("methods", nargs="*", default=list(SECOND))
    parser.add_argument("--root", required=True)
    parser.add_argument("--cache-dir")
    parser.add_argument("--bits", type=int, nargs="+", default=[12, 32, 48])
    parser.add_argument("--seeds", type=int, default=3)
    given = parser.parse_args()
    dataset = ddsh.load("cifar10", root=given.root)
    split = get_protocol("cifar10-held-out-30").split(dataset, 0)
    backbone = Backbone("efficientnet-lite0", image_size=112, n_frozen=18, cache_dir=given.cache_dir)
    rows: dict[str, Any] = {"train": split.train, "query": split.query, "database": split.database}
    labels = {part: dataset.labels.take(chosen) for part, chosen in rows.items()}
    X = {part: backbone.features(SomeImages(dataset.images, chosen)).astype(float) for part, chosen in rows.items()}
    print({part: len(chosen) for part, chosen in rows.items()})
    y = np.asarray(labels["train"].to_array(), float)

    def score(encode: Callable[[Floats], NDArray[np.floating[Any]]]) -> float:
        query, database = (
            BinaryCodes.from_outputs(encode(X[part]).astype(np.float32)) for part in ("query", "database")
        )
        return ddsh.score(query, database, labels["query"], labels["database"]).map

    for name in given.methods:
        for n_bits in given.bits:
            ours, others = [], []
            for seed in range(given.seeds):
                method = get_method(name)(n_bits)
                if "seed" in method.get_params():
                    method.set_params(seed=seed)
                ours.append(score(method.fit(X["train"], labels["train"]).project))
                others.append(score(SECOND[name](X["train"], y, n_bits, seed)))
            print(
                name,
                n_bits,
                *(" ".join(f"{value:.4f}" for value in values) for values in (ours, others)),
                sep=" | ",
                flush=True,
            )


if __name__ == "__main__":
    main()
