"""Similarity in per cent: what share of images at a distance is relevant.

A distance says how two codes differ, not what that means. Images whose relevance is known say it: of all pairs at a
distance, some share is relevant. Isotonic regression makes it a curve that never rises with the distance.

References
----------
Zadrozny, B. and Elkan, C. "Transforming Classifier Scores into Accurate Multiclass Probability Estimates." KDD 2002.
Kish, L. Survey Sampling. Wiley 1965.
"""

import io
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import NDArray
from PIL import Image as Pillow
from PIL import ImageEnhance, ImageOps
from pydantic import BaseModel, ConfigDict, Field, model_validator

from ddsh.codes import CodePair
from ddsh.errors import InvalidInput
from ddsh.images import Image
from ddsh.index.pairs import By, PairDistance

__all__ = ["CUT_OFF", "MIN_QUERIES", "Calibration", "SimilarityCurve", "altered_copy"]

CUT_OFF = 50.0
"""Similarity in per cent below which an image is not called similar."""

MIN_QUERIES = 20
"""Smallest number of images that a calibration is made from."""

_SHARE_OF_COPIES = 0.1  # of all pairs: with ten equally frequent classes, as many are relevant
_UNFAMILIAR, _FAMILIAR = 0.005, 0.05  # shares of held-out images


class SimilarityCurve(BaseModel):
    """Similarity by distance: linear between knots, constant outside.

    Attributes
    ----------
    distances : tuple of int
        Distances of the knots, ascending.
    shares : tuple of float
        Share of relevant images at each, 0 to 1; it never rises.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    distances: tuple[int, ...] = Field(min_length=1)
    shares: tuple[float, ...]

    @model_validator(mode="after")
    def check_order(self) -> Self:
        """Refuse knots that make no falling curve."""
        n_knots = len(self.distances)
        if len(self.shares) != n_knots or not all(0 <= share <= 1 for share in self.shares):
            raise ValueError("a curve has one share of 0 to 1 at each distance")
        if (np.diff(self.distances) <= 0).any() or (np.diff(self.shares) > 0).any():
            raise ValueError("distances must rise and shares must not")
        return self

    @classmethod
    def fit(cls, distances: NDArray[Any], relevant: NDArray[np.bool_], share: float | None = None) -> Self:
        """Learn the curve from pairs of queries and items.

        The pairs of one query depend on each other: if its code is wrong, all of them are. So a share among many
        pairs of few queries is not sure. Each is drawn towards the share among all pairs, as if one more query had
        been seen, whose distances say nothing. The number of queries behind a share is Kish's effective number: with
        w_i pairs of query i, (sum w_i)^2 / sum w_i^2.

        Parameters
        ----------
        distances : ndarray of int, shape (n_queries, n_items)
            Distance of each pair.
        relevant : ndarray of bool, shape (n_queries, n_items)
            Whether each pair is relevant.
        share : float, optional
            Weigh the pairs as if this share of them were relevant, whatever their numbers.
        """
        from sklearn.isotonic import IsotonicRegression  # not needed to use a curve

        n_queries, n_distances = len(distances), int(distances.max()) + 1
        place = (2 * np.arange(n_queries)[:, None] + relevant) * n_distances + distances
        counts = np.bincount(place.ravel(), minlength=2 * n_queries * n_distances)
        # Of each query: pairs that are not relevant, and those that are.
        weights = counts.reshape(n_queries, 2, n_distances).astype(np.float64)
        if share is not None:
            weights *= np.array([[1 - share], [share]]) / weights.sum(axis=(0, 2))[:, None]
        of_query = weights.sum(axis=1)
        total = of_query.sum(axis=0)
        seen = np.flatnonzero(total)
        shares = weights[:, 1, seen].sum(axis=0) / total[seen]
        shares = IsotonicRegression(increasing=False).fit(seen, shares, total[seen]).predict(seen)
        starts = np.flatnonzero(np.diff(shares, prepend=np.inf))  # of the levels of equal share
        by_level = np.add.reduceat(of_query[:, seen], starts, axis=1)
        n_effective = by_level.sum(axis=0) ** 2 / np.square(by_level).sum(axis=0)
        n_effective = np.repeat(n_effective, np.diff(starts, append=len(seen)))
        overall = weights[:, 1].sum() / weights.sum()
        shares = (n_effective * shares + overall) / (n_effective + 1)
        fitted = IsotonicRegression(increasing=False).fit(seen, shares, n_effective)
        knots = fitted.X_thresholds_, fitted.y_thresholds_
        return cls(distances=tuple(map(int, knots[0])), shares=tuple(round(float(each), 4) for each in knots[1]))

    def at(self, distances: NDArray[Any]) -> NDArray[np.float64]:
        """Return the share at some distances."""
        shares: NDArray[np.float64] = np.interp(distances, self.distances, self.shares)
        return shares


class Calibration(BaseModel):
    """What distances mean, learned from pairs of images that are known to be relevant or not.

    Attributes
    ----------
    version : int
        Version of the format.
    meaning : {"labels", "copies"}
        What relevant means. ``labels``: the images share a label. ``copies``: one is an altered copy of the other,
        as if a tenth of all pairs were copies; this needs no labels.
    n_queries : int
        Number of images that it was learned from.
    curves : dict of str to SimilarityCurve
        For each order of results the share of relevant images by distance.
    unfamiliar, familiar : float or None
        Familiarity (:meth:`ddsh.look.Look.familiarity`) that 0.5% and 5% of images held out from training do not
        reach. An image below the first is unlike all that the model knows; None without look bits.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    version: Literal[1] = 1
    meaning: Literal["labels", "copies"]
    n_queries: int
    curves: dict[By, SimilarityCurve]
    unfamiliar: float | None = None
    familiar: float | None = None

    @classmethod
    def from_labels(
        cls,
        queries: CodePair,
        database: CodePair,
        similar: NDArray[np.bool_],
        familiarity: NDArray[np.floating[Any]] | None = None,
    ) -> Self:
        """Learn from labelled images.

        Parameters
        ----------
        queries, database : CodePair
            Codes of images that the model was not trained on, and of images to find with them.
        similar : ndarray of bool, shape (n_queries, n_database)
            Which of them share a label.
        familiarity : ndarray, optional
            Familiarity of the queries, if there are look bits.
        """
        if len(queries) < MIN_QUERIES:
            raise InvalidInput(f"A calibration needs {MIN_QUERIES} images held out from training; got {len(queries)}.")
        found = _distances(queries, database)
        curves = {by: SimilarityCurve.fit(values, similar) for by, values in found.items()}
        low, high = (None, None) if familiarity is None else _tail(familiarity)
        return cls(meaning="labels", n_queries=len(queries), curves=curves, unfamiliar=low, familiar=high)

    @classmethod
    def from_copies(
        cls,
        images: CodePair,
        copies: CodePair,
        originals: NDArray[np.integer[Any]],
        familiarity: NDArray[np.floating[Any]],
    ) -> Self:
        """Learn from altered copies, without labels.

        Parameters
        ----------
        images : CodePair
            Codes of different images.
        copies : CodePair
            Codes of altered copies of some of them.
        originals : ndarray of int
            The row in `images` that each copy was made from.
        familiarity : ndarray
            Familiarity of images that the look bits were not learned from.
        """
        look, copied = images.look, copies.look
        if look is None or copied is None or len(look) < MIN_QUERIES:
            raise InvalidInput(f"A calibration by copies needs look bits of {MIN_QUERIES} images; got {len(images)}.")
        distances = copied.hamming(look)
        relevant = originals[:, None] == np.arange(len(look))
        curve = SimilarityCurve.fit(distances.astype(np.int64), relevant, _SHARE_OF_COPIES)
        low, high = _tail(familiarity)
        return cls(meaning="copies", n_queries=len(copied), curves={"look": curve}, unfamiliar=low, familiar=high)

    def similarity(self, by: By, distances: NDArray[Any], weight: float = 1.0) -> NDArray[np.float64]:
        """Return similarities in per cent, in an order that has a curve."""
        return np.round(100 * weight * self.curves[by].at(distances), 1)

    def reach(self, by: By, least: float, weight: float = 1.0) -> int:
        """Return the largest distance whose similarity is at least `least` per cent, -1 if there is none."""
        last = self.curves[by].distances[-1]
        similar = self.similarity(by, np.arange(last + 1), weight) >= least
        # The last knot of the curve holds for every larger distance.
        return np.iinfo(np.int32).max if similar[-1] else int(np.count_nonzero(similar)) - 1

    def weight(self, familiarity: float) -> float:
        """Return the factor of all similarities of a query: 1, or less down to 0 for an unfamiliar image."""
        if self.unfamiliar is None or self.familiar is None:
            return 1.0
        return float(np.interp(familiarity, (self.unfamiliar, self.familiar), (0.0, 1.0)))


def altered_copy(image: Image, rng: np.random.Generator) -> Image:
    """Return a copy of an image that is cropped, brightened or darkened, recompressed and perhaps mirrored.

    Half of the width and of the height remain at least. The random numbers decide how strong each alteration is.
    """
    picture = Pillow.fromarray(image[..., 0] if image.shape[2] == 1 else image).convert("RGB")
    width, height = (max(1, round(rng.uniform(0.5, 1) * side)) for side in picture.size)
    left, top = int(rng.integers(0, picture.width - width + 1)), int(rng.integers(0, picture.height - height + 1))
    picture = picture.crop((left, top, left + width, top + height))
    picture = ImageEnhance.Brightness(picture).enhance(rng.uniform(0.7, 1.3))
    if rng.random() < 0.5:
        picture = ImageOps.mirror(picture)
    file = io.BytesIO()
    picture.save(file, "JPEG", quality=int(rng.integers(30, 95)))
    with Pillow.open(file) as compressed:
        pixels = np.asarray(compressed)
    return pixels[..., :1] if image.shape[2] == 1 else pixels


def _distances(queries: CodePair, database: CodePair) -> dict[By, NDArray[np.int64]]:
    """Return the distances in every order that the codes allow."""
    found: dict[By, NDArray[np.int64]] = {}
    if queries.label is not None and database.label is not None:
        found["label"] = queries.label.hamming(database.label).astype(np.int64)
    if queries.look is not None and database.look is not None:
        found["look"] = queries.look.hamming(database.look).astype(np.int64)
    if len(found) == 2:
        distance = PairDistance(queries.main.n_bits, queries.look.n_bits if queries.look is not None else 0)
        found["both"] = distance.of(found["label"], found["look"]).astype(np.int64)
    return found


def _tail(familiarity: NDArray[np.floating[Any]]) -> tuple[float, float]:
    """Return the familiarity that few held-out images do not reach."""
    low, high = np.quantile(familiarity, (_UNFAMILIAR, _FAMILIAR)).round(6).tolist()
    return low, high
