"""Supervised codes of any number, scaled up from the codes that the authors of DDSH published.

The authors' CIFAR-10 codes (1,000 queries, 59,000 database codes) consist of a few codes that thousands of images share
and of many that occur once. :func:`scale` draws more codes from the same distribution, as far as it is known:

- A code that occurs twice or more is drawn with the probability of its count.
- With the share of codes that occur once, a new code is made of two of those: each bit comes from one of two codes that
  have the same nearest frequent code and about the same distance to it.

``python benchmarks/scaled_codes.py FOLDER`` checks it: a tenth of the authors' codes is scaled up to all of them and
compared with them, by the number of different codes, the sizes of buckets, and the distances from the queries.
"""

import sys
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy.io import loadmat

from ddsh.codes import BinaryCodes

Words = NDArray[np.uint64]
FREQUENT = 1 / 200
"""Share of all codes from which on a code is frequent."""

NEIGHBOURS = 8
"""Of the codes sorted by frequent code and distance, how far away the other parent may be."""


def read(folder: Path, n_bits: int) -> tuple[BinaryCodes, BinaryCodes]:
    """Return the authors' query codes and database codes."""
    content = loadmat(folder / f"hashCodes-{n_bits}.mat")
    return BinaryCodes.from_signs(content["tB"]), BinaryCodes.from_signs(content["dB"])


def scale(codes: BinaryCodes, n_codes: int, seed: int = 0) -> BinaryCodes:
    """Return the codes and as many more from their distribution as are missing to `n_codes`, in random order."""
    rng = np.random.default_rng(seed)
    given = codes.words()[0]
    values, counts = np.unique(given, return_counts=True)
    shared, single = values[counts > 1], values[counts == 1]
    frequent = values[counts >= FREQUENT * len(given)]
    distances = np.bitwise_count(single[:, None] ^ frequent)
    nearest = distances.argmin(axis=1)
    order = np.lexsort((rng.random(len(single)), distances.min(axis=1), nearest))
    single, nearest = single[order], nearest[order]
    n_new = n_codes - len(given)
    weights = counts[counts > 1] / counts[counts > 1].sum()
    new = shared[rng.choice(len(shared), n_new, p=weights)]
    places = np.flatnonzero(rng.random(n_new) < len(single) / len(given))
    one = rng.integers(0, len(single), len(places))
    other = np.clip(one + rng.integers(-NEIGHBOURS, NEIGHBOURS + 1, len(places)), 0, len(single) - 1)
    other = np.where(nearest[one] == nearest[other], other, one)
    mask = rng.integers(0, 1 << 64, len(places), np.uint64)
    new[places] = (single[one] & mask) | (single[other] & ~mask)
    words = rng.permutation(np.concatenate([given, new]))
    return BinaryCodes(words.view(np.uint8).reshape(-1, 8)[:, : codes.packed.shape[1]].copy(), codes.n_bits)


def describe(queries: BinaryCodes, codes: BinaryCodes) -> dict[str, list[float]]:
    """Return the facts that a scaled set should share with a real one."""
    counts = np.unique(codes.words()[0], return_counts=True)[1]
    sizes = [0, 1, 3, 15, 63, 1023, len(codes)]
    within = np.zeros(codes.n_bits + 1)
    hundredth, first = [], []
    for _, distances in queries.hamming_blocks(codes):
        within += np.bincount(distances.reshape(-1), minlength=codes.n_bits + 1)
        nearest = np.partition(distances, 99, axis=1)
        hundredth += nearest[:, 99].tolist()
        first += distances.min(axis=1).tolist()
    return {
        "different codes": [len(counts)],
        "buckets of 1, 2-3, 4-15, 16-63, 64-1023, more": np.histogram(counts, np.array(sizes) + 0.5)[0].tolist(),
        "largest buckets": np.sort(counts)[::-1][:5].tolist(),
        "per cent within 0, 2, 4, 8, 16 bits": [
            round(float(100 * within[: radius + 1].sum() / within.sum()), 2) for radius in (0, 2, 4, 8, 16)
        ],
        "distance of the nearest, 50 / 75 / 90 / 99 %": np.percentile(first, [50, 75, 90, 99]).round(1).tolist(),
        "distance of the 100th, 50 / 75 / 90 / 99 %": np.percentile(hundredth, [50, 75, 90, 99]).round(1).tolist(),
    }


def main(folder: Path) -> None:
    """Compare the authors' codes with as many that were scaled up from a tenth of them."""
    for n_bits in (32, 48):
        queries, codes = read(folder, n_bits)
        tenth = codes[np.random.default_rng(0).permutation(len(codes))[: len(codes) // 10]]
        real, scaled = describe(queries, codes), describe(queries, scale(tenth, len(codes)))
        print(f"{n_bits} bits: {len(codes):,} codes of the authors, and as many scaled up from {len(tenth):,} of them")
        for fact, values in real.items():
            print(f"  {fact}: {values} {scaled[fact]}")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        main(Path(sys.argv[1]))
    else:
        print("The check of scaled codes needs a folder with hashCodes-32.mat and hashCodes-48.mat.")
