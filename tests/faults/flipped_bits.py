"""Flip one bit of a search index at a time, and compare every answer with that of the whole index.

``python tests/faults/flipped_bits.py 200`` does so 200 times in the catalogue and 200 times in the index files.
"""

import json
import logging
import random
import shutil
import sys
import tempfile
from collections import Counter
from pathlib import Path

import numpy as np

from ddsh import ImageSearch, Model
from ddsh.errors import DdshError
from ddsh.methods.lsh import LSH

COLOURS = {"blue": (40, 60, 200), "green": (40, 190, 60), "red": (210, 50, 40)}
FILES = {"catalogue": "catalogue.sqlite*", "index files": "index/**/*"}


def make_index(folder: Path, n_per_colour: int = 40) -> None:
    """Index images with labels and metadata."""
    rng = np.random.default_rng(0)
    colours = np.repeat(np.array(list(COLOURS.values())), n_per_colour, axis=0)
    noise = rng.integers(-40, 40, (len(colours), 4, 4, 3)).repeat(4, 1).repeat(4, 2)
    pixels = np.clip(colours[:, None, None] + noise, 0, 255).astype(np.uint8)
    labels = [name for name in COLOURS for _ in range(n_per_colour)]
    with ImageSearch.create(folder, Model(LSH(16), "small").fit(pixels)) as search:
        search.add(list(pixels), labels=labels, metadata=[{"number": number} for number in range(len(pixels))])


def answers(folder: Path) -> str:
    """Return what an index answers to searches, with and without filters, and to questions about itself."""
    with ImageSearch.open(folder) as search:
        results = [search.query(number, k=1000) for number in (1, 50)]
        results += [search.query(5, k=1000, label=name) for name in COLOURS]
        results.append(search.query(5, k=1000, text="green"))
        hits = [
            (hit.id, hit.distance, hit.bits, hit.entry.labels, dict(hit.entry.metadata), hit.entry.sha256)
            for result in results
            for hit in result
        ]
        return json.dumps([hits, sorted(search.info().labels.items()), search.ids(limit=10**6), len(search)])


def flip(folder: Path, pattern: str, chance: random.Random) -> str:
    """Flip a bit of one of the files, each byte being equally likely, and return which one it was."""
    files = sorted(path for path in folder.glob(pattern) if path.is_file() and path.stat().st_size)
    path = chance.choices(files, [file.stat().st_size for file in files])[0]
    data = bytearray(path.read_bytes())
    place, bit = chance.randrange(len(data)), chance.randrange(8)
    data[place] ^= 1 << bit
    path.write_bytes(data)
    return f"{path.relative_to(folder)}, byte {place}, bit {bit}"


def attack(original: Path, pattern: str, times: int, seed: int) -> tuple[Counter[str], list[str]]:
    """Flip bits in copies of an index; return how often which answer came, and which answers were wrong."""
    chance, counts, wrong = random.Random(seed), Counter[str](), []
    expected, copy = answers(original), original.with_name("copy")
    for _ in range(times):
        shutil.copytree(original, copy)
        place = flip(copy, pattern, chance)
        try:
            outcome = "same answers" if answers(copy) == expected else "WRONG"
        except DdshError:
            outcome = "refused"
        except Exception as error:
            outcome = f"CRASHED with {type(error).__name__}"
        counts[outcome] += 1
        if outcome.isupper() or outcome.startswith("CRASHED"):
            wrong.append(f"{place}: {outcome}")
        shutil.rmtree(copy)
    return counts, wrong


def main() -> None:
    """Attack as often as the command line says, and print what came."""
    times = int(sys.argv[1]) if len(sys.argv) > 1 else 200
    logging.disable(logging.WARNING)  # "rebuilt from the catalogue", each time
    failed = False
    with tempfile.TemporaryDirectory() as folder:
        make_index(Path(folder) / "index")
        for name, pattern in FILES.items():
            counts, wrong = attack(Path(folder) / "index", pattern, times, seed=1)
            print(f"{name}: {dict(counts)}", *wrong, sep="\n  ")
            failed |= bool(wrong)
    sys.exit(failed)


if __name__ == "__main__":
    main()
