"""Protocols: how a dataset is divided into query, train and database, and how its ranking is scored."""

import hashlib
import json
import logging
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ddsh.datasets.dataset import Dataset
from ddsh.errors import DataError, InvalidInput, UnknownName

_LOGGER = logging.getLogger(__name__)

RowNumbers: TypeAlias = NDArray[np.int64]
_VALIDATION = "-validation"


@dataclass(frozen=True)
class Split:
    """Row numbers of a dataset, ascending.

    Parameters
    ----------
    query : ndarray of int
        Images to search for.
    train : ndarray of int
        Images to learn from; part of the database unless the dataset's makers say otherwise.
    database : ndarray of int
        Images to search in; never one of the query.
    protocol : Protocol
        What made the split.
    seed : int
        Of its random choices.
    """

    query: RowNumbers
    train: RowNumbers
    database: RowNumbers
    protocol: "Protocol"
    seed: int

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 of the protocol, the seed and all row numbers: equal fingerprints, equal splits."""
        head = {"protocol": asdict(self.protocol), "seed": self.seed}
        digest = hashlib.sha256(json.dumps(head, sort_keys=True).encode())
        for rows in (self.query, self.train, self.database):
            digest.update(len(rows).to_bytes(8, "little"))
            digest.update(rows.astype("<i8").tobytes())
        return digest.hexdigest()

    def validation(self, dataset: Dataset, share: float = 0.2) -> "Split":
        """Return a split of the training images alone, to choose parameters by: the query set stays unseen.

        Parameters
        ----------
        dataset : Dataset
            What was split.
        share : float
            Part of the training images that is held out; half of it is query, half is database.
        """
        n_held = round(len(self.train) * share)
        if not 2 <= n_held < len(self.train):
            raise InvalidInput(f"{len(self.train):,} training images cannot be held out in a share of {share}.")
        rng = np.random.Generator(np.random.PCG64([self.seed, 1]))
        held = _draw_stratified(dataset, self.train, n_held, rng)
        query = _draw_stratified(dataset, held, n_held // 2, rng)
        rows = np.setdiff1d(self.train, held), np.setdiff1d(held, query)
        return Split(query, *rows, replace(self.protocol, name=f"{self.protocol.name}{_VALIDATION}"), self.seed)


@dataclass(frozen=True)
class Protocol:
    """A rule that splits a dataset.

    Parameters
    ----------
    name : str
        What to call it in results.
    query_per_class : int, optional
        Draw this many queries of every class. An image with many labels is drawn for one of them, rare classes first.
    n_query : int, optional
        Or draw this many queries at random; without either, all of `query_from`.
    query_from : str, optional
        Part of the dataset that queries come from; all of it if not given.
    database_from : str, optional
        Part that is the database; if not given, everything that is not a query.
    train_from : str, optional
        Part that training images come from; the database if not given, or if the dataset has no such part.
    n_train : int, optional
        How many of them; all if not given.
    stratified : bool
        Keep each class's share among the training images; else draw at random.
    top_k : int, optional
        Mean average precision looks at the first `top_k` items; all if not given.
    """

    name: str
    query_per_class: int | None = None
    n_query: int | None = None
    query_from: str | None = None
    database_from: str | None = None
    train_from: str | None = None
    n_train: int | None = None
    stratified: bool = True
    top_k: int | None = None

    def __post_init__(self) -> None:
        if self.query_per_class is not None and self.n_query is not None:
            raise InvalidInput("Give query_per_class or n_query, not both.")
        for field in ("query_per_class", "n_query", "n_train", "top_k"):
            value = getattr(self, field)
            if value is not None and value < 1:
                raise InvalidInput(f"{field} must be at least 1; got {value}.")
        if self.query_per_class is None and self.n_query is None and self.query_from is None:
            raise InvalidInput("A protocol needs query_per_class, n_query or query_from.")

    def split(self, dataset: Dataset, seed: int) -> Split:
        """Divide `dataset`; the same dataset and seed give the same rows on every machine."""
        if seed < 0:
            raise InvalidInput(f"A seed is 0 or more; got {seed}.")
        rng = np.random.Generator(np.random.PCG64(seed))
        query = np.sort(self._draw_queries(dataset, rng))
        database = np.setdiff1d(_part(dataset, self.database_from), query)
        if listed := self.listed_twice(dataset, query):
            _LOGGER.warning("%s: %d queries are listed in the database too; left out there.", dataset.name, len(listed))
        pool = np.setdiff1d(_part(dataset, self.train_from), query) if self.train_from in dataset.parts else database
        if len(database) == 0:
            raise DataError(f"{dataset.name}: protocol {self.name!r} leaves no image for the database.")
        return Split(query, np.sort(self._draw_train(dataset, pool, rng)), database, self, seed)

    def listed_twice(self, dataset: Dataset, query: RowNumbers) -> list[int]:
        """Return the queries that the dataset's makers put into the database, too."""
        if self.database_from is None:
            return []
        listed: list[int] = np.intersect1d(_part(dataset, self.database_from), query).tolist()
        return listed

    def _draw_queries(self, dataset: Dataset, rng: np.random.Generator) -> RowNumbers:
        pool = _part(dataset, self.query_from)
        if self.query_per_class is not None:
            keep_one = self.database_from is None
            return _draw_per_class(dataset, pool, self.query_per_class, keep_one, rng)
        if self.n_query is None:
            return pool
        if self.n_query >= len(pool):
            raise DataError(f"{dataset.name}: {self.n_query:,} queries asked for, {len(pool):,} images to draw from.")
        return _shuffled(pool, rng)[: self.n_query]

    def _draw_train(self, dataset: Dataset, pool: RowNumbers, rng: np.random.Generator) -> RowNumbers:
        if self.n_train is None:
            return pool
        if self.n_train > len(pool):
            raise DataError(
                f"{dataset.name}: {self.n_train:,} training images asked for, {len(pool):,} to draw from;"
                " ask for fewer with n_train."
            )
        if self.stratified:
            return _draw_stratified(dataset, pool, self.n_train, rng)
        return _shuffled(pool, rng)[: self.n_train]


PROTOCOLS: Mapping[str, Protocol] = {
    protocol.name: protocol
    for protocol in (
        Protocol("cifar10", query_per_class=100, n_train=5000),
        Protocol(
            "svhn",
            query_per_class=100,
            query_from="test",
            database_from="train",
            n_train=5000,
            stratified=False,
        ),
        Protocol("nuswide", n_query=1867, n_train=5000, stratified=False, top_k=5000),
        Protocol("sample", query_from="query", database_from="database", n_train=5000),
        Protocol("mnist", query_per_class=100, query_from="test", database_from="train", n_train=5000),
        Protocol("given", query_from="query", database_from="database", train_from="train"),
        Protocol("own", query_per_class=10),
    )
}
"""The paper's three protocols, the sample's, MNIST's, the makers' own split, and one for your own images."""


@dataclass(frozen=True)
class ValidationProtocol(Protocol):
    """A protocol's training images alone, divided once more: what parameters are chosen by."""

    def split(self, dataset: Dataset, seed: int) -> Split:
        """Divide the training images; see :meth:`Split.validation`."""
        return super().split(dataset, seed).validation(dataset)


def get_protocol(name: str) -> Protocol:
    """Return the protocol of this name, or say which one was probably meant; ``-validation`` may follow the name."""
    base = name.removesuffix(_VALIDATION)
    if base not in PROTOCOLS:
        raise UnknownName("protocol", base, PROTOCOLS)
    return PROTOCOLS[base] if base == name else ValidationProtocol(**asdict(PROTOCOLS[base]))


def _part(dataset: Dataset, name: str | None) -> RowNumbers:
    """Return the rows of a part, ascending; of everything if no part is named."""
    if name is None:
        return np.arange(len(dataset))
    if name not in dataset.parts:
        known = ", ".join(sorted(dataset.parts)) or "none"
        raise DataError(f"{dataset.name} has no part {name!r} (it has: {known}); choose another protocol.")
    return np.sort(dataset.parts[name])


def _shuffled(rows: RowNumbers, rng: np.random.Generator) -> RowNumbers:
    """Shuffle by sorting random numbers: their stream is fixed for all time, that of ``rng.permutation`` is not."""
    return rows[np.argsort(rng.random(len(rows)), kind="stable")]


def _rare_first(counts: Mapping[Any, int]) -> list[Any]:
    return sorted(counts, key=lambda label: (counts[label], label))


def _draw_per_class(
    dataset: Dataset, pool: RowNumbers, per_class: int, keep_one: bool, rng: np.random.Generator
) -> RowNumbers:
    """Draw `per_class` rows for every class, none twice; `keep_one` leaves the class at least one row."""
    labels = dataset.labels.take(pool)
    free = np.ones(len(pool), np.bool_)
    drawn = []
    counts = dict.fromkeys(dataset.labels.counts(), 0) | labels.counts()
    for label in _rare_first(counts):
        candidates = np.flatnonzero(free & labels.having(label))
        if len(candidates) < per_class + keep_one:
            raise DataError(
                f"{dataset.name}: class {dataset.class_names[label]!r} has {len(candidates):,} images to draw from,"
                f" but {per_class:,} queries {'and one database image ' if keep_one else ''}of each class are needed;"
                " ask for fewer queries per class or add images."
            )
        chosen = _shuffled(candidates, rng)[:per_class]
        free[chosen] = False
        drawn.append(pool[chosen])
    for label in counts if keep_one else ():
        if not (free & labels.having(label)).any():
            raise DataError(
                f"{dataset.name}: all {counts[label]:,} images of class {dataset.class_names[label]!r} became queries;"
                " ask for fewer queries per class or add images."
            )
    if not drawn:
        raise DataError(f"{dataset.name}: no labelled images to draw queries from.")
    return np.concatenate(drawn)


def _draw_stratified(dataset: Dataset, pool: RowNumbers, n_rows: int, rng: np.random.Generator) -> RowNumbers:
    """Draw `n_rows` rows in which each class has about its share of the pool; rare classes are served first."""
    labels = dataset.labels.take(pool)
    counts = labels.counts()
    order = _shuffled(np.arange(len(pool)), rng)
    chosen = np.zeros(len(pool), np.bool_)
    for label in _rare_first(counts):
        having = labels.having(label)
        wanted = counts[label] * n_rows // len(pool) - int((chosen & having).sum())
        room = n_rows - int(chosen.sum())
        candidates = order[(having & ~chosen)[order]]
        chosen[candidates[: max(0, min(wanted, room))]] = True
    rest = order[~chosen[order]]
    chosen[rest[: n_rows - int(chosen.sum())]] = True
    return pool[chosen]
