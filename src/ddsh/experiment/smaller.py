"""Fewer images by the same protocol, for a quick look."""

from dataclasses import dataclass, fields, replace

import numpy as np

from ddsh.datasets import Dataset, Protocol, Split
from ddsh.datasets.protocols import RowNumbers


@dataclass(frozen=True, kw_only=True)
class SmallerProtocol(Protocol):
    """A protocol whose query set, training set and database are thinned at random, each only where that is asked for.

    Training images are drawn from the smaller database, unless the whole protocol has them elsewhere. The splits have
    the whole protocol's name, with ``-quick`` behind it.

    Parameters
    ----------
    whole : Protocol
        The protocol.
    keep_query, keep_train, keep_database : int, optional
        How many images to keep; all if there are fewer.
    """

    whole: Protocol
    keep_query: int | None = None
    keep_train: int | None = None
    keep_database: int | None = None

    @classmethod
    def of(cls, whole: Protocol, n_query: int | None, n_train: int | None, n_database: int | None) -> "SmallerProtocol":
        """Return a smaller version of a protocol."""
        settings = {field.name: getattr(whole, field.name) for field in fields(Protocol)}
        return cls(**settings, whole=whole, keep_query=n_query, keep_train=n_train, keep_database=n_database)

    def split(self, dataset: Dataset, seed: int) -> Split:
        """Divide `dataset`; the same dataset and seed give the same rows on every machine."""
        whole = self.whole.split(dataset, seed)
        rng = np.random.Generator(np.random.PCG64([seed, 2]))
        query = _some(whole.query, self.keep_query, rng)
        database = _some(whole.database, self.keep_database, rng)
        apart = not np.isin(whole.train, whole.database).all()
        n_train = len(whole.train) if self.keep_train is None else self.keep_train
        train = _some(whole.train if apart else database, n_train, rng)
        return Split(query, train, database, replace(self, name=f"{whole.protocol.name}-quick"), seed)


def _some(rows: RowNumbers, n_rows: int | None, rng: np.random.Generator) -> RowNumbers:
    """Return some rows, ascending; all of them where none is too many."""
    if n_rows is None or n_rows >= len(rows):
        return rows
    drawn: RowNumbers = np.sort(rows[np.argsort(rng.random(len(rows)), kind="stable")[:n_rows]])
    return drawn
