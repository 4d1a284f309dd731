"""Search indexes of any size for benchmarks: a real model, and codes scaled up from real ones.

The label bits are those of :mod:`scaled_codes`, the look bits those of :mod:`look_codes`. The files of the entries do
not exist. ``python benchmarks/large_index.py FOLDER CODES N`` makes one of N entries, for several benchmarks.
"""

import hashlib
import sqlite3
import sys
import zlib
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import numpy as np
from look_codes import looks_of
from scaled_codes import read, scale

import ddsh
from ddsh.codes import CodePair
from ddsh.search.indexer import pack_codes
from ddsh.search.local import LocalStore
from ddsh.search.onnx_encoder import write_encoder

N_BITS = 32
LOOK_BITS = 128
NAMES = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")


def train_model() -> ddsh.Model:
    """Return DDSH with look bits and a calibration, trained on few images: how well does not matter here."""
    rng = np.random.default_rng(0)
    labels = np.arange(240) % 10
    shades = (18 * labels).astype(np.uint8).reshape(-1, 1, 1, 1)
    images = rng.integers(0, 64, (len(labels), 32, 32, 3), np.uint8) + shades
    backbone = ddsh.Backbone("efficientnet-lite0", image_size=112, n_frozen=6)
    model = ddsh.Model(ddsh.DDSH(N_BITS, training=ddsh.Training(epochs=1, learning_rate=0.1)), backbone, LOOK_BITS)
    model.fit(images[:160], labels[:160])
    return model.calibrate(images[160:], labels[160:], images[:160], labels[:160])


def fill(folder: Path, codes: CodePair) -> None:
    """Add an entry for every code to an empty index, and write the index files.

    The rows are written by hand, with their checksums: through the triggers it would take ten times as long.
    """
    packed = [code.tobytes() for code in pack_codes(codes)]
    paths = [f"/photos/{row // 1000:04d}/IMG_{row:08d}.jpg" for row in range(len(packed))]
    digests = [hashlib.sha256(path.encode()).digest() for path in paths]

    def contents() -> Iterator[tuple[object, ...]]:
        for row, (sha256, code) in enumerate(zip(digests, packed, strict=True)):
            values = (sha256, 250_000, 1024, 768, code, bytes(64))
            yield (row, *values, checksum(*values))

    def images() -> Iterator[tuple[object, ...]]:
        for row, path in enumerate(paths):
            values = (row, path, row, row, "{}")
            yield (*values, 1, checksum(*values), checksum(NAMES[row % 10]))

    database = sqlite3.connect(folder / "catalogue.sqlite")
    with closing(database), database:
        triggers = database.execute("SELECT name, sql FROM sqlite_schema WHERE type = 'trigger'").fetchall()
        for name, _ in triggers:
            database.execute(f"DROP TRIGGER {name}")
        database.executemany("INSERT INTO contents VALUES (?, ?, ?, ?, ?, ?, ?, ?)", contents())
        database.executemany("INSERT INTO images VALUES (?, ?, ?, ?, ?, ?, ?, ?)", images())
        database.executemany("INSERT INTO labels VALUES (?, ?)", ((row, NAMES[row % 10]) for row in range(len(packed))))
        for kind, name in enumerate(NAMES):
            ids = range(kind, len(packed), len(NAMES))
            total = (name, len(ids), sum(ids))
            database.execute("INSERT INTO label_totals VALUES (?, ?, ?, ?)", (*total, checksum(*total)))
        database.execute("INSERT INTO commits VALUES (1, ?)", ("0" * 16,))
        for _, sql in triggers:
            database.execute(sql)
    with LocalStore(folder, wait=60) as store, store.write():
        pass  # writes the index files


def checksum(*values: object) -> int:
    """Return the checksum of a row, as :mod:`ddsh.search.catalogue` computes it."""
    return zlib.crc32(b"\0".join(value if isinstance(value, bytes) else str(value).encode() for value in values))


def make_index(folder: Path, authors_codes: Path, n_entries: int) -> None:
    """Make an index in a new folder."""
    model = train_model()
    ddsh.ImageSearch.create(folder, model).close()
    photos = np.random.default_rng(1).integers(0, 256, (32, 64, 64, 3), np.uint8)
    write_encoder(model, folder / "model", [model.prepare(photo) for photo in photos])  # as for 500 new images
    given = read(authors_codes, N_BITS)[1]
    label = scale(given, n_entries)
    fill(folder, CodePair(label, looks_of(label, given)))


if __name__ == "__main__":
    make_index(Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]))
