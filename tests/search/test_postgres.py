"""The store in PostgreSQL: faults, locks, migrations and the HNSW index; its results are in test_all_stores."""

import socket
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import psycopg
import pytest
from small_photos import draw

from ddsh.codes import BinaryCodes, CodePair
from ddsh.errors import ArtefactError, Busy, Unavailable
from ddsh.search import ImageSearch
from ddsh.search.address import create_store, open_store
from ddsh.search.postgres import MIGRATIONS, _Connection
from ddsh.search.store import Content, Entry, SearchManifest


def empty(address, index="auto", look_bits=20):
    def save(folder):
        folder.mkdir(exist_ok=True)
        (folder / "model.json").write_text("{}")

    manifest = SearchManifest(fingerprint="ab" * 32, n_bits=12, look_bits=look_bits, preprocessing={}, index=index)
    return create_store(address, manifest, save, 5)


@pytest.fixture
def silent_port():
    """A port where connections are accepted and nothing ever answers."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield listener.getsockname()[1]


def test_every_failure_to_connect_is_one_line_without_the_password(
    postgres_server, silent_port, monkeypatch, tmp_path, caplog
):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    caplog.set_level("DEBUG")
    socket_folder = postgres_server.get_uri().partition("host=")[2]
    for address, reason in {
        "postgresql://me:secret@127.0.0.1:1/x": "Connection refused",
        f"postgresql://me:secret@127.0.0.1:{silent_port}/x?connect_timeout=2": "timeout",
        f"postgresql://nobody:secret@/postgres?host={socket_folder}": 'role "nobody" does not exist',
        f"postgresql://postgres:secret@/nothing?host={socket_folder}": 'database "nothing" does not exist',
    }.items():
        started = time.monotonic()
        with pytest.raises(Unavailable, match=reason) as caught:
            open_store(address, 5)
        assert time.monotonic() - started < 20
        assert "secret" not in repr(caught.value) + caplog.text
        assert "\n" not in str(caught.value)


def test_a_wrong_password_is_one_line(postgres_server, postgres):
    rules = postgres_server.pgdata / "pg_hba.conf"
    before = rules.read_text()
    postgres_server.psql("CREATE ROLE guest LOGIN PASSWORD 'right';")
    try:
        rules.write_text("local all guest scram-sha-256\n" + before)
        postgres_server.psql("SELECT pg_reload_conf();")
        time.sleep(0.5)
        address = postgres.replace("postgres:@", "guest:wrong@")
        with pytest.raises(
            Unavailable, match=r"password authentication failed.*set the password in PGPASSWORD"
        ) as caught:
            open_store(address, 5)
        assert "wrong" not in repr(caught.value)
    finally:
        rules.write_text(before)
        postgres_server.psql("SELECT pg_reload_conf(); DROP ROLE guest;")


def test_the_command_line_refuses_a_password_in_the_address():
    command = [sys.executable, "-m", "ddsh", "search", "--store", "postgresql://me:secret@localhost/x", "1"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr.count("\n"), "secret" in done.stderr) == (2, 1, False)
    assert "set PGPASSWORD, PGPASSFILE or MILVUS_TOKEN" in done.stderr


def test_a_server_that_stops_answering_is_given_up(postgres, monkeypatch):
    with empty(postgres) as store:
        monkeypatch.setattr(_Connection, "answer_seconds", 0.3)
        with pytest.raises(Unavailable, match="no answer within 0 seconds"):
            store._rows("SELECT pg_sleep(5)")
        monkeypatch.undo()
        assert store.count() == 0


def test_a_database_without_the_extension_says_what_to_install(postgres_server, monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    postgres_server.psql("CREATE DATABASE bare; ")
    postgres_server.psql("CREATE ROLE plain LOGIN;")
    postgres_server.psql("GRANT CREATE ON DATABASE bare TO plain;")
    address = postgres_server.get_uri(database="bare").replace("postgres:@", "plain:@")
    with pytest.raises(ArtefactError, match=r"permission denied to create extension.*CREATE EXTENSION vector"):
        empty(address)


def test_a_server_without_the_extension_says_what_to_install(postgres):
    with (
        empty(postgres) as store,
        store.write() as writer,
        pytest.raises(ArtefactError, match=r"lacks .* install pgvector on the server"),
    ):
        writer._rows("CREATE EXTENSION another")


def test_an_extension_in_a_schema_that_is_not_searched_is_named(postgres):
    with pytest.raises(ArtefactError, match=r"add the schema that has it to search_path, such as public") as caught:
        empty(postgres.replace(",public", ""))
    assert "\n" not in str(caught.value)
    content = Content(bytes(32), 1, 1, 1, bytes(2), b"")
    with empty(postgres, look_bits=0) as store, store.write() as writer, writer.transaction():
        writer.restore_all([Entry(1, "/1.jpg", content.sha256.hex(), 1, 1, 1, 1)], {1: content})
    with (
        open_store(postgres.replace(",public", ""), 5) as store,
        pytest.raises(ArtefactError, match="does not find the extension vector"),
    ):
        store.search(store.code_of(1), 1)


def test_tables_of_another_user_are_refused_without_talk_of_extensions(postgres_server, postgres):
    empty(postgres).close()
    schema = postgres.rpartition("%3D")[2].partition(",")[0]
    postgres_server.psql(f"CREATE ROLE visitor LOGIN; GRANT USAGE ON SCHEMA {schema} TO visitor;")
    with pytest.raises(ArtefactError, match=r"refuses \(permission denied for table ddsh_facts\)") as caught:
        open_store(postgres.replace("postgres:@", "visitor:@"), 5)
    assert "EXTENSION" not in str(caught.value)


def test_an_index_is_made_in_the_schema_that_was_named_or_nowhere(postgres_server, postgres):
    empty(postgres).close()
    schema = postgres.rpartition("%3D")[2].partition(",")[0]
    other = postgres.replace(f"%3D{schema},", f"%3Dother,{schema},")
    with pytest.raises(ArtefactError, match=r"has no schema other for this user; .* CREATE SCHEMA other"):
        empty(other)
    postgres_server.psql("CREATE SCHEMA other;")
    try:
        with pytest.raises(ArtefactError, match="holds no search index"):
            open_store(other, 5)
        with empty(other) as store:
            assert store.count() == 0
    finally:
        postgres_server.psql("DROP SCHEMA other CASCADE;")


def test_an_older_schema_is_migrated_and_a_newer_one_refused(postgres, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr("ddsh.search.postgres.MIGRATIONS", MIGRATIONS[:1])
        empty(postgres).close()
    with open_store(postgres, 5), psycopg.connect(postgres, autocommit=True) as connection:
        assert connection.execute("SELECT value FROM ddsh_facts WHERE name = 'version'").fetchone() == ("2",)
        connection.execute("UPDATE ddsh_facts SET value = '9' WHERE name = 'version'")
    with pytest.raises(ArtefactError, match="has version 9; this ddsh reads version 2"):
        open_store(postgres, 5)


def hnsw_indexes(address):
    with psycopg.connect(address) as connection:
        rows = connection.execute(
            "SELECT indexname FROM pg_indexes WHERE schemaname = current_schema() AND indexdef LIKE '%USING hnsw%'"
            " ORDER BY indexname"
        )
        return [name for (name,) in rows]


def test_hnsw_indexes_that_another_writer_makes_are_not_waited_for(postgres):
    content = Content(bytes(32), 1, 1, 1, bytes(2), b"")
    with empty(postgres, "hnsw", 0) as store, psycopg.connect(postgres) as other:
        other.execute("SELECT pg_advisory_xact_lock(hashtext(current_schema()), 5)")
        with store.write() as writer, writer.transaction():
            writer.restore_all([Entry(1, "/1.jpg", content.sha256.hex(), 1, 1, 1, 1)], {1: content})
        assert not hnsw_indexes(postgres)
        assert store.search(store.code_of(1), 1).ids.tolist() == [1]
        other.rollback()
        with store.write():
            pass
        assert hnsw_indexes(postgres) == ["ddsh_codes_label_idx"]


def test_hnsw_finds_most_of_the_nearest_in_the_right_order(postgres, rng):
    codes = CodePair(
        BinaryCodes.from_bits(rng.integers(0, 2, (500, 12))), BinaryCodes.from_bits(rng.integers(0, 2, (500, 64)))
    )
    packed = np.hstack([codes.label.packed, codes.look.packed])
    entries, contents = [], {}
    for number in range(1, 501):
        sha256 = number.to_bytes(32, "big")
        entries.append(Entry(number, f"/{number}.jpg", sha256.hex(), 1, 1, 1, 1))
        contents[number] = Content(sha256, 1, 1, 1, packed[number - 1].tobytes(), b"")
    with empty(postgres, "hnsw", 64) as store:
        with store.write():
            pass
        assert not hnsw_indexes(postgres), "made before there are codes, which takes longer in the end"
        with store.write() as writer, writer.transaction():
            writer.restore_all(entries[:400], contents)
        assert hnsw_indexes(postgres) == ["ddsh_codes_label_idx", "ddsh_codes_look_idx"]
        with store.write() as writer, writer.transaction():
            writer.restore_all(entries[400:], contents)
        shared = 0
        for row in range(20):
            exact = store.search(codes[[row]], 500).ids[:10]  # so many that all are compared
            found = store.search(codes[[row]], 10)
            shared += len(np.intersect1d(exact, found.ids))
            assert found.distances.tolist() == sorted(found.distances.tolist())
            assert found.ids[0] == row + 1
        assert store.index_name == "hnsw"
        assert shared >= 160, "less than 80% were found"


def test_writers_work_side_by_side_but_not_beside_one_who_is_alone(postgres):
    with empty(postgres) as store, open_store(postgres, 0.2) as other:
        with store.write(), other.write(), pytest.raises(Busy, match="is being changed"), other.write(alone=True):
            pass
        with store.write(alone=True), pytest.raises(Busy, match="is being changed"), other.write():
            pass


def test_every_acknowledged_add_is_there_once_after_restarts(postgres_server, postgres, model):
    """The server stops and starts while eight threads add 1,000 images."""
    n_threads, n_each = 8, 125
    ImageSearch.create(postgres, model).close()
    acknowledged, failures = [], []

    def add(thread):
        rng = np.random.default_rng(thread)
        pictures = [draw(rng, (thread, 9, 9)) for _ in range(n_each)]
        with ImageSearch.open(postgres, wait=60) as search:
            for start in range(0, n_each, 5):
                for _ in range(60):
                    try:
                        report = search.add(pictures[start : start + 5])
                    except (ArtefactError, Busy) as error:
                        failures.append(str(error))
                        time.sleep(0.2)
                    else:
                        acknowledged.extend(report.added + report.known)
                        break

    with ThreadPoolExecutor(n_threads) as pool:
        running = [pool.submit(add, thread) for thread in range(n_threads)]
        for target in (200, 600):
            while len(acknowledged) < target and not all(each.done() for each in running):
                time.sleep(0.02)
            postgres_server.stop()
            time.sleep(0.3)
            postgres_server.start()
        for each in running:
            each.result()
    with ImageSearch.open(postgres) as search:
        assert sorted(acknowledged) == search.ids(limit=2000)
        assert len(search) == n_threads * n_each
        assert search.verify() == []
    assert failures, "the server was stopped, and nobody noticed"
    assert all("\n" not in failure for failure in failures)


def test_a_reader_waits_while_the_server_restarts(postgres_server, postgres):
    with empty(postgres) as store:
        assert store.count() == 0
        postgres_server.stop()
        starter = threading.Timer(1, postgres_server.start)
        starter.start()
        assert store.count() == 0
        starter.join()
