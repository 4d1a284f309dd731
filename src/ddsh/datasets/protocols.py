"""Protocols: split a dataset into query, train and database rows."""

import hashlib
import json
import logging
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from functools import cached_property
from typing import Any, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ddsh.datasets.base import Dataset
from ddsh.errors import DataError, InvalidInput, UnknownName
from ddsh.labels import draw_stratified

__all__ = [
    "PROTOCOLS",
    "FoldsProtocol",
    "HeldOutProtocol",
    "LearnedDatabaseProtocol",
    "Protocol",
    "RowNumbers",
    "Split",
    "SubsampledProtocol",
    "ValidationProtocol",
    "get_protocol",
]

_LOGGER = logging.getLogger(__name__)

RowNumbers: TypeAlias = NDArray[np.int64]
"""Positions of images in a dataset."""

_VALIDATION = "-validation"
_LEARNED = "-learned-database"
_SUFFIX = re.compile(r"(.*?)(?:-(validation|learned-database)|-(held-out|folds)-(\d{1,2}))?", re.DOTALL)


@dataclass(frozen=True, repr=False)
class Split:
    """Query, train and database rows of a dataset, each in ascending order.

    Parameters
    ----------
    query : ndarray of int
        Images to search for.
    train : ndarray of int
        Images to learn from; part of the database unless the dataset defines another training part.
    database : ndarray of int
        Images to search in; disjoint from the query.
    protocol : Protocol
        The protocol that made the split.
    seed : int
        Seed of its random draws.
    learned_database : bool
        The database has the codes that a method learned for it, from its labels, instead of codes of its images.
    """

    query: RowNumbers
    train: RowNumbers
    database: RowNumbers
    protocol: "Protocol"
    seed: int
    learned_database: bool = False

    def __repr__(self) -> str:
        sizes = f"{len(self.query):,} query, {len(self.train):,} train, {len(self.database):,} database"
        return f"Split({self.protocol.name}, seed {self.seed}: {sizes})"

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 of the protocol, the seed and all row numbers: equal fingerprints mean equal splits."""
        # `query_share` came later: fingerprints of older results stay valid, and the rows say what it did.
        facts = asdict(self.protocol, dict_factory=lambda pairs: {k: v for k, v in pairs if k != "query_share"})
        head = {"protocol": facts, "seed": self.seed}
        digest = hashlib.sha256(json.dumps(head, sort_keys=True).encode())
        for rows in (self.query, self.train, self.database):
            digest.update(len(rows).to_bytes(8, "little"))
            digest.update(rows.astype("<i8").tobytes())
        return digest.hexdigest()

    def validation(self, dataset: Dataset, share: float = 0.2) -> "Split":
        """Split the training images alone, to choose parameters without the query set.

        Parameters
        ----------
        dataset : Dataset
            The dataset of this split.
        share : float
            Share of the training images to hold out; half of it becomes query, half database.
        """
        n_held = round(len(self.train) * share)
        if not 2 <= n_held < len(self.train):
            raise InvalidInput(f"{len(self.train):,} training images cannot be held out in a share of {share}.")
        rng = np.random.Generator(np.random.PCG64([self.seed, 1]))
        held = self.train[draw_stratified(dataset.labels.take(self.train), n_held, rng)]
        query = held[draw_stratified(dataset.labels.take(held), n_held // 2, rng)]
        rows = np.setdiff1d(self.train, held), np.setdiff1d(held, query)
        return Split(query, *rows, replace(self.protocol, name=f"{self.protocol.name}{_VALIDATION}"), self.seed)

    def folds(self, dataset: Dataset, n_folds: int) -> "list[Split]":
        """Split the training images alone for cross-validation: each part is held out once.

        Parameters
        ----------
        dataset : Dataset
            The dataset of this split.
        n_folds : int
            Number of parts, 2 or more, with about the same share of each class; half of a part becomes query, half
            database.
        """
        if not 2 <= n_folds <= len(self.train) // 2:
            raise InvalidInput(
                f"{len(self.train):,} training images make 2 to {len(self.train) // 2} folds; got {n_folds}."
            )
        rng = np.random.Generator(np.random.PCG64([self.seed, 3]))
        protocol = replace(self.protocol, name=f"{self.protocol.name}{_VALIDATION}")
        left, found = self.train, []
        for number in range(n_folds):
            size = len(left) // (n_folds - number)
            held = left[draw_stratified(dataset.labels.take(left), size, rng)]
            query = held[draw_stratified(dataset.labels.take(held), size // 2, rng)]
            rows = np.setdiff1d(self.train, held), np.setdiff1d(held, query)
            found.append(Split(query, *rows, protocol, self.seed))
            left = np.setdiff1d(left, held)
        return found


@dataclass(frozen=True, repr=False)
class Protocol:
    """A rule that splits a dataset; images without labels belong to no part of a split.

    Parameters
    ----------
    name : str
        Name used in results.
    query_per_class : int, optional
        Number of queries to draw from every class. An image with several labels is drawn for one of them; rare
        classes are drawn first.
    n_query : int, optional
        Number of queries to draw at random instead. Without either, all of `query_from` is query.
    query_from : str, optional
        Part of the dataset that queries are drawn from; the whole dataset by default.
    database_from : str, optional
        Part that is the database; by default everything that is not a query.
    train_from : str, optional
        Part that training images are drawn from; the database by default, or if the dataset has no such part.
    n_train : int, optional
        Number of training images; all by default.
    stratified : bool
        Keep the share of each class among the training images; otherwise draw at random.
    top_k : int, optional
        Number of results that mean average precision considers; all by default.
    query_share : float, optional
        Adapt `query_per_class` to small classes: at most this share of a class becomes query, but one image at least,
        and one is left; a class of one image has no query. By default a class that is too small is an error.
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
    query_share: float | None = None

    def __post_init__(self) -> None:
        if self.query_per_class is not None and self.n_query is not None:
            raise InvalidInput("Give query_per_class or n_query, not both.")
        for field in ("query_per_class", "n_query", "n_train", "top_k"):
            value = getattr(self, field)
            if value is not None and value < 1:
                raise InvalidInput(f"{field} must be at least 1; got {value}.")
        if self.query_share is not None and not 0 < self.query_share <= 1:
            raise InvalidInput(f"query_share must be above 0 and at most 1; got {self.query_share}.")
        if self.query_per_class is None and self.n_query is None and self.query_from is None:
            raise InvalidInput("A protocol needs query_per_class, n_query or query_from.")

    def __repr__(self) -> str:
        settings = {field.name: getattr(self, field.name) for field in fields(self) if field.name != "name"}
        defaults = {field.name: field.default for field in fields(self)}
        given = [f"{name}={value!r}" for name, value in settings.items() if value != defaults[name]]
        return f"{type(self).__name__}({', '.join([repr(self.name), *given])})"

    def split(self, dataset: Dataset, seed: int) -> Split:
        """Split `dataset`; the same dataset and seed give the same rows on every machine.

        Parameters
        ----------
        dataset : Dataset
            The dataset.
        seed : int
            Seed of the random draws, 0 or more.
        """
        if seed < 0:
            raise InvalidInput(f"A seed is 0 or more; got {seed}.")
        rng = np.random.Generator(np.random.PCG64(seed))
        pool = _part(dataset, self.query_from)
        if self.query_per_class is not None:
            query = self._draw_per_class(dataset, pool, rng)
        elif self.n_query is None:
            query = pool
        elif self.n_query < len(pool):
            query = _shuffled(pool, rng)[: self.n_query]
        else:
            raise DataError(f"{dataset.name}: {self.n_query:,} queries asked for, {len(pool):,} images to draw from.")
        query = np.sort(query)
        database = np.setdiff1d(_part(dataset, self.database_from), query)
        if listed := self.listed_twice(dataset, query):
            _LOGGER.warning("%s: %d queries are listed in the database too; left out there.", dataset.name, len(listed))
        pool = np.setdiff1d(_part(dataset, self.train_from), query) if self.train_from in dataset.parts else database
        if len(database) == 0:
            raise DataError(f"{dataset.name}: protocol {self.name!r} leaves no image for the database.")
        if self.n_train is not None:
            if self.n_train > len(pool):
                raise DataError(
                    f"{dataset.name}: {self.n_train:,} training images asked for, {len(pool):,} to draw from;"
                    " ask for fewer with n_train."
                )
            if self.stratified:
                pool = pool[draw_stratified(dataset.labels.take(pool), self.n_train, rng)]
            else:
                pool = _shuffled(pool, rng)[: self.n_train]
        return Split(query, np.sort(pool), database, self, seed)

    def listed_twice(self, dataset: Dataset, query: RowNumbers) -> list[int]:
        """Return the queries that are also in the database part of the dataset."""
        if self.database_from is None:
            return []
        listed: list[int] = np.intersect1d(_part(dataset, self.database_from), query).tolist()
        return listed

    def with_options(
        self,
        *,
        query_per_class: int | None = None,
        n_query: int | None = None,
        n_train: int | None = None,
        part: str | None = None,
    ) -> Self:
        """Return the protocol with the options that are not None; its name then ends in ``-custom``.

        Parameters
        ----------
        query_per_class : int, optional
            Number of queries of every class; of a class that has fewer images, all but one.
        n_query : int, optional
            Number of queries at random, instead.
        n_train : int, optional
            Number of training images.
        part : str, optional
            Part of the dataset that training images are drawn from.
        """
        if query_per_class is not None and n_query is not None:
            raise InvalidInput("Give the number of queries per class or of all queries, not both.")
        changes: dict[str, Any] = {}
        if query_per_class is not None or n_query is not None:
            changes |= {"query_per_class": query_per_class, "n_query": n_query}
            changes["query_share"] = None if self.query_share is None else 1.0
        if n_train is not None:
            changes["n_train"] = n_train
        if part is not None:
            changes["train_from"] = part
        return replace(self, name=f"{self.name}-custom", **changes) if changes else self

    def _draw_per_class(self, dataset: Dataset, pool: RowNumbers, rng: np.random.Generator) -> RowNumbers:
        """Draw queries of every class, none twice; if all images are database too, one of each class must remain."""
        assert self.query_per_class is not None, "the caller draws per class"
        labels = dataset.labels.take(pool)
        keep_one = self.database_from is None
        free = np.ones(len(pool), np.bool_)
        drawn = []
        counts = dict.fromkeys(dataset.labels.counts(), 0) | labels.counts()
        if self.query_share is not None and keep_one:
            for label, count in counts.items():
                if count == 1:  # as a query it would have nothing to find
                    free &= ~labels.having(label)
        for label in _rare_first(counts):
            candidates = np.flatnonzero(free & labels.having(label))
            n_wanted = self.query_per_class
            if self.query_share is not None:
                share = max(1, int(self.query_share * counts[label]))
                n_wanted = max(0, min(n_wanted, share, len(candidates) - keep_one))
            elif len(candidates) < n_wanted + keep_one:
                one_more = "and one database image " if keep_one else ""
                raise DataError(
                    f"{dataset.name}: class {dataset.class_names[label]!r} has {len(candidates):,} images to draw from,"
                    f" but {n_wanted:,} queries {one_more}of each class are needed;"
                    " ask for fewer queries per class or add images."
                )
            chosen = _shuffled(candidates, rng)[:n_wanted]
            free[chosen] = False
            drawn.append(pool[chosen])
        for label in counts if keep_one and self.query_share is None else ():
            if not (free & labels.having(label)).any():
                raise DataError(
                    f"{dataset.name}: all {counts[label]:,} images of class {dataset.class_names[label]!r} became"
                    " queries; ask for fewer queries per class or add images."
                )
        if not drawn:
            raise DataError(f"{dataset.name}: no labelled images to draw queries from.")
        query = np.concatenate(drawn)
        if not len(query):
            raise DataError(f"{dataset.name}: no class has two images, so there is nothing to find; add images.")
        return query


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
        Protocol("flickr8k", n_query=500, n_train=3000, stratified=False, top_k=5000),
        Protocol("sample", query_from="query", database_from="database", n_train=5000),
        Protocol("mnist", query_per_class=100, query_from="test", database_from="train", n_train=5000),
        Protocol("given", query_from="query", database_from="database", train_from="train"),
        Protocol("own", query_per_class=10, query_share=0.25),
    )
}
"""The protocols, by name: the paper's three, MNIST, the sample, predefined parts (given), your own images (own)."""


@dataclass(frozen=True, repr=False)
class ValidationProtocol(Protocol):
    """A protocol that splits the training images of another, to choose parameters."""

    def split(self, dataset: Dataset, seed: int) -> Split:
        """Split the training images; see :meth:`Split.validation`."""
        return super().split(dataset, seed).validation(dataset)


@dataclass(frozen=True, repr=False)
class LearnedDatabaseProtocol(Protocol):
    """A protocol that learns from the whole database of another, and searches the codes learned for it.

    Its scores cannot be compared with those of other protocols: the labels of the whole database are known.
    """

    def split(self, dataset: Dataset, seed: int) -> Split:
        """Split `dataset`; all of the database is learned from."""
        whole = super().split(dataset, seed)
        protocol = replace(self, name=f"{self.name}{_LEARNED}")
        return Split(whole.query, whole.database, whole.database, protocol, seed, learned_database=True)


@dataclass(frozen=True, kw_only=True, repr=False)
class HeldOutProtocol(Protocol):
    """A protocol that holds out a share of the training images of another.

    Half of them become query, half database. As in the other protocol, the database also contains images that were
    trained on, in the same proportion: they are found more easily, so they must not be missing when parameters are
    chosen, nor be too many.

    Parameters
    ----------
    share : float
        Share of the training images.
    """

    share: float

    def split(self, dataset: Dataset, seed: int) -> Split:
        """Split the training images."""
        whole = super().split(dataset, seed)
        held = whole.validation(dataset, self.share)
        trained = float(np.isin(whole.database, whole.train).mean())
        n_trained = round(min(trained / max(1 - trained, 1e-9) * len(held.database), len(held.train)))
        rng = np.random.Generator(np.random.PCG64([seed, 4]))
        database = np.sort(np.concatenate([held.database, _shuffled(held.train, rng)[:n_trained]]))
        name = f"{self.name}-held-out-{round(100 * self.share)}"
        return replace(held, database=database, protocol=replace(self, name=name))


@dataclass(frozen=True, kw_only=True, repr=False)
class FoldsProtocol(Protocol):
    """Cross-validation: seed k holds out part k of the training images that another protocol draws with seed 0.

    Parameters
    ----------
    n_folds : int
        Number of parts.
    """

    n_folds: int

    def split(self, dataset: Dataset, seed: int) -> Split:
        """Return one of the parts; see :meth:`Split.folds`."""
        fold = super().split(dataset, 0).folds(dataset, self.n_folds)[seed % self.n_folds]
        return replace(fold, protocol=replace(self, name=f"{self.name}-folds-{self.n_folds}"), seed=seed)


@dataclass(frozen=True, kw_only=True, repr=False)
class SubsampledProtocol(Protocol):
    """A protocol that keeps a random subset of the rows of another, for quick runs.

    Training images are drawn from the smaller database, unless `whole` has them elsewhere. The splits are named
    after `whole`, followed by ``-quick``.

    Parameters
    ----------
    whole : Protocol
        The protocol to subsample.
    keep_query, keep_train, keep_database : int, optional
        Number of images to keep; all if there are fewer.
    """

    whole: Protocol
    keep_query: int | None = None
    keep_train: int | None = None
    keep_database: int | None = None

    @classmethod
    def of(cls, whole: Protocol, n_query: int | None, n_train: int | None, n_database: int | None) -> Self:
        """Return a subsampled version of a protocol."""
        settings = {field.name: getattr(whole, field.name) for field in fields(Protocol)}
        return cls(**settings, whole=whole, keep_query=n_query, keep_train=n_train, keep_database=n_database)

    def split(self, dataset: Dataset, seed: int) -> Split:
        """Split `dataset`; the same dataset and seed give the same rows on every machine."""
        whole = self.whole.split(dataset, seed)
        rng = np.random.Generator(np.random.PCG64([seed, 2]))

        def some(rows: RowNumbers, n_rows: int | None) -> RowNumbers:
            """Draw some rows; all of them if there are fewer."""
            return rows if n_rows is None or n_rows >= len(rows) else np.sort(_shuffled(rows, rng)[:n_rows])

        query, database = some(whole.query, self.keep_query), some(whole.database, self.keep_database)
        apart = not np.isin(whole.train, whole.database).all()
        n_train = len(whole.train) if self.keep_train is None else self.keep_train
        train = some(whole.train if apart else database, n_train)
        return Split(query, train, database, replace(self, name=f"{whole.protocol.name}-quick"), seed)


def get_protocol(name: str) -> Protocol:
    """Return a protocol by name.

    Parameters
    ----------
    name : str
        A name of :data:`PROTOCOLS`. Appended words split its training images instead: ``-validation`` and
        ``-held-out-30`` hold out a fifth and 30 per cent of them, ``-folds-5`` makes five parts for cross-validation.
        ``-learned-database`` learns from the whole database, and searches the codes learned for it.

    Raises
    ------
    UnknownName
        If there is no such protocol; the message suggests the closest name.
    """
    found = _SUFFIX.fullmatch(name)
    assert found is not None, "it matches every name"
    base, word, kind, number = found.groups()
    if base not in PROTOCOLS:
        raise UnknownName("protocol", base, PROTOCOLS)
    settings = asdict(PROTOCOLS[base])
    if kind == "held-out":
        return HeldOutProtocol(**settings, share=int(number) / 100)
    if kind == "folds":
        return FoldsProtocol(**settings, n_folds=int(number))
    if word == "learned-database":
        return LearnedDatabaseProtocol(**settings)
    return ValidationProtocol(**settings) if word else PROTOCOLS[base]


def _part(dataset: Dataset, name: str | None) -> RowNumbers:
    """Return the labelled rows of a part in ascending order; all labelled rows if no part is named."""
    if name is None:
        return np.delete(np.arange(len(dataset)), dataset.unlabelled)
    if name not in dataset.parts:
        known = ", ".join(sorted(dataset.parts)) or "none"
        raise DataError(f"{dataset.name} has no part {name!r} (it has: {known}); choose another protocol.")
    rows = np.sort(dataset.parts[name])
    return rows[~np.isin(rows, dataset.unlabelled)]


def _shuffled(rows: RowNumbers, rng: np.random.Generator) -> RowNumbers:
    """Shuffle by sorting random numbers: NumPy may change ``rng.permutation``, but not this stream."""
    return rows[np.argsort(rng.random(len(rows)), kind="stable")]


def _rare_first(counts: Mapping[Any, int]) -> list[Any]:
    """Return the labels, rare ones first."""
    return sorted(counts, key=lambda label: (counts[label], label))
