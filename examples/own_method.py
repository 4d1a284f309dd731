"""A hashing method of your own, compared with LSH on the bundled sample."""

import numpy as np

import ddsh
from ddsh.methods import Hasher, MethodCard


class MedianHash(Hasher):
    """Random projections, thresholded at their medians, so that every bit is balanced."""

    card = MethodCard(
        name="median",
        title="Random projections, thresholded at the median",
        authors="-",
        venue="-",
        year=2026,
        supervision="unsupervised",
        inputs="features",
    )

    def __init__(self, n_bits: int = 32, *, seed: int = 0) -> None:
        self.n_bits = n_bits
        self.seed = seed

    def _fit(self, items, labels):  # noqa: ANN001, ANN202
        rng = np.random.default_rng(self.seed)
        self.directions_ = rng.standard_normal((items.shape[1], self.n_bits))
        self.thresholds_ = np.median(items @ self.directions_, axis=0)

    def _project(self, items):  # noqa: ANN001, ANN202
        return items @ self.directions_ - self.thresholds_


for method in (ddsh.LSH(32), MedianHash(32)):
    result = ddsh.evaluate(method, "sample")
    print(f"{result.method:8} MAP {result.scores.map:.4f}, distinct codes {result.bits.n_distinct}")
