"""Look bits of any number, scaled up from those of CIFAR-10 images under a trained model.

``look_codes.npz`` holds the 128 look bits of 10,000 training images and of 1,000 test images, sorted by class.
``python benchmarks/look_codes.py FOLDER`` makes it again from FOLDER/cifar-10-batches-bin: DDSH with 32 bits learns
from 1,000 other images, and the look bits are learned with it.

:func:`looks_of` draws look bits for scaled label bits: each bit comes from one of two images of the same class, of
which the second is one of the nearest to the first. ``python benchmarks/look_codes.py`` checks it: a tenth of the codes
is scaled up to all of them and compared with them, by distances from the queries.
"""

import sys
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ddsh.codes import BinaryCodes

FILE = Path(__file__).with_suffix(".npz")
LOOK_BITS, N_CLASSES, N_DATABASE, N_QUERIES = 128, 10, 10_000, 1_000
NEIGHBOURS = 4
"""The other parent is one of so many nearest images of the class."""

_BLOCK = 1 << 18


def read_looks() -> tuple[BinaryCodes, BinaryCodes]:
    """Return the look bits of the queries and of the database, both sorted by class."""
    content = np.load(FILE)
    return BinaryCodes(content["queries"], LOOK_BITS), BinaryCodes(content["database"], LOOK_BITS)


def looks_of(label: BinaryCodes, authors: BinaryCodes, seed: int = 0) -> BinaryCodes:
    """Return look bits for label bits: those of the class whose codes they are nearest to.

    Parameters
    ----------
    label : BinaryCodes
        The label bits.
    authors : BinaryCodes
        The authors' codes, sorted by class.
    seed : int
        Seed of the draws.
    """
    signs = authors.signs().reshape(N_CLASSES, -1, authors.n_bits).sum(axis=1)
    return scale_looks(
        read_looks()[1], label.hamming(BinaryCodes.from_signs(np.where(signs > 0, 1, -1))).argmin(axis=1), seed
    )


def scale_looks(database: BinaryCodes, kinds: NDArray[np.integer], seed: int = 0) -> BinaryCodes:
    """Return look bits for images of some classes, 0 to 9, drawn from codes that are sorted by class."""
    rng = np.random.default_rng(seed)
    words = np.ascontiguousarray(database.words().T)
    per_class = len(words) // N_CLASSES
    near = np.concatenate(
        [_neighbours(words[start : start + per_class]) + start for start in range(0, len(words), per_class)]
    )
    found = np.empty((len(kinds), words.shape[1]), np.uint64)
    for start in range(0, len(kinds), _BLOCK):
        some = kinds[start : start + _BLOCK]
        one = some * per_class + rng.integers(0, per_class, len(some))
        other = near[one, rng.integers(0, near.shape[1], len(some))]
        mask = rng.integers(0, 1 << 64, (len(some), words.shape[1]), np.uint64)
        found[start : start + len(some)] = (words[one] & mask) | (words[other] & ~mask)
    return BinaryCodes(found.view(np.uint8).reshape(len(kinds), -1), LOOK_BITS)


def _neighbours(words: NDArray[np.uint64]) -> NDArray[np.intp]:
    """Return for each code the nearest others."""
    distances = np.bitwise_count(words[:, None] ^ words).sum(axis=2)
    np.fill_diagonal(distances, LOOK_BITS)
    return np.argpartition(distances, NEIGHBOURS, axis=1)[:, :NEIGHBOURS]


def describe(queries: BinaryCodes, database: BinaryCodes) -> dict[str, list[float]]:
    """Return the facts that scaled codes should share with real ones."""
    distances = np.sort(queries.hamming(database), axis=1)
    return {
        f"distance of the {name}, 5 / 50 / 95 %": np.percentile(distances[:, place], [5, 50, 95]).round(1).tolist()
        for name, place in (("nearest", 0), ("10th", 9), ("100th", 99), ("1,000th", 999), ("5,000th", 4999))
    }


def main(folder: Path | None) -> None:
    """Make the file, or check the scaled codes."""
    if folder is not None:
        _make(folder)
    queries, database = read_looks()
    tenth = database[np.arange(0, len(database), 10)]
    scaled = scale_looks(tenth, np.arange(len(database)) * N_CLASSES // len(database))
    print(f"{len(database):,} look codes of CIFAR-10, and as many scaled up from {len(tenth):,} of them")
    facts = describe(queries, scaled)
    for fact, values in describe(queries, database).items():
        print(f"  {fact}: {values} {facts[fact]}")


def _make(folder: Path) -> None:
    import ddsh
    from ddsh.datasets.cifar10 import load

    data = load(folder / "cifar-10-batches-bin")
    labels = data.labels.to_array()
    rng = np.random.default_rng(0)
    # The last 10,000 images are the test images.
    train, test = rng.permutation(50_000), 50_000 + rng.permutation(10_000)

    def first(rows: NDArray[np.integer], n: int) -> NDArray[np.integer]:
        """Return the first rows of each class, by class."""
        return np.concatenate([rows[labels[rows] == kind][: n // N_CLASSES] for kind in range(N_CLASSES)])

    learned = first(train, 1_000)
    stored, asked = first(np.setdiff1d(train, learned), N_DATABASE), first(test, N_QUERIES)
    backbone = ddsh.Backbone("efficientnet-lite0", image_size=112, n_frozen=6)
    model = ddsh.Model(ddsh.DDSH(32), backbone, LOOK_BITS)
    model.fit(data.images.take(learned), labels[learned])
    arrays: dict[str, Any] = {}
    for name, rows in (("database", stored), ("queries", asked)):
        look = model.encode_pair(data.images.take(rows)).look
        assert look is not None, "the model has look bits"
        arrays[name] = look.packed
    np.savez(FILE, **arrays)


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else None)
