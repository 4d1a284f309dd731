"""Folders, tables and archives, local and elsewhere, become shards and are read."""

import socket
import subprocess
import sys
import time

import fsspec
import pytest

from ddsh.distributed.encoder import ShardEncoder, read_model
from ddsh.distributed.parts import EncodingManifest, Parts, from_parquet
from ddsh.distributed.shards import Shard, find_shards, is_remote, read_shard
from ddsh.errors import ArtefactError, DataError, InvalidInput
from ddsh.model import Model


def read(shards):
    return [image for shard in shards for image in read_shard(shard)]


@pytest.fixture
def memory():
    files = fsspec.filesystem("memory")
    yield files
    files.rm("/", recursive=True)


def test_a_folder_is_divided_in_the_order_of_names(photos):
    shards = find_shards(str(photos), size=4)
    names = [address.removeprefix(f"{photos}/") for shard in shards for address in shard.addresses]
    assert names == sorted(names)
    assert len(names) == 10
    assert [len(shard.addresses) for shard in shards] == [4, 4, 2]
    assert [shard.number for shard in shards] == [0, 1, 2]
    found = read(shards)
    assert found[0].data == (photos / "a" / "0.png").read_bytes()
    assert found[0].mtime_ns == (photos / "a" / "0.png").stat().st_mtime_ns
    assert Shard.from_json(shards[1].to_json()) == shards[1]


def test_a_folder_in_another_file_system_gives_the_same_images(photos, memory):
    memory.put(str(photos), "/bucket", recursive=True)
    assert is_remote("memory://bucket")
    shards = find_shards("memory://bucket")
    assert shards[0].addresses[0].startswith("memory://")
    assert [image.data for image in read(shards)] == [image.data for image in read(find_shards(str(photos)))]
    memory.rm("/bucket/a/0.png")
    missing = read(shards)[0]
    assert (missing.data, missing.error) == (None, "cannot be read (missing).")


def test_a_server_is_read_through_its_address(photos):
    pytest.importorskip("pyftpdlib", reason="pyftpdlib is not installed")
    port = free_port()
    command = [sys.executable, "-m", "pyftpdlib", "-i", "127.0.0.1", "-p", str(port), "-d", str(photos.parent)]
    server = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    address = f"ftp://127.0.0.1:{port}"
    try:
        wait_for(port)
        found = read(find_shards(f"{address}/photos"))
    finally:
        server.kill()
        server.wait()
    assert found[0].address == f"{address}/photos/a/0.png"
    assert [image.data for image in found] == [image.data for image in read(find_shards(str(photos)))]


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as free:
        return free.getsockname()[1]


def wait_for(port):
    """Return as soon as a server listens."""
    deadline = time.monotonic() + 60
    while True:
        try:
            socket.create_connection(("127.0.0.1", port)).close()
            return
        except ConnectionRefusedError:
            assert time.monotonic() < deadline
            time.sleep(0.05)


@pytest.fixture
def s3(monkeypatch):
    """A server that speaks S3, with the settings of fsspec that lead to it."""
    pytest.importorskip("s3fs", reason="s3fs is not installed")
    pytest.importorskip("moto", reason="moto[server] is not installed")
    port = free_port()
    command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    server = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    for name, value in (("ACCESS_KEY_ID", "key"), ("SECRET_ACCESS_KEY", "secret"), ("DEFAULT_REGION", "us-east-1")):
        monkeypatch.setenv(f"AWS_{name}", value)
    try:
        wait_for(port)
        monkeypatch.setitem(fsspec.config.conf, "s3", {"endpoint_url": f"http://127.0.0.1:{port}"})
        yield fsspec.filesystem("s3")
    finally:
        server.kill()
        server.wait()


def test_images_are_read_from_s3_and_parts_written_to_it(photos, archive, model, s3):
    s3.mkdir("bucket")
    s3.put(str(photos), "bucket/photos", recursive=True)
    s3.put_file(str(archive), "bucket/train-000.tar")
    shards = find_shards("s3://bucket/photos")
    assert shards[0].addresses[0] == "s3://bucket/photos/a/0.png"
    assert [image.data for image in read(shards)] == [image.data for image in read(find_shards(str(photos)))]
    (packed,) = find_shards("s3://bucket/train-*.tar")
    assert [image.address for image in read_shard(packed)][:1] == ["s3://bucket/train-000.tar/0000.png"]

    parts, manifest = Parts("s3://bucket/codes"), EncodingManifest.of(Model.load(model), shards)
    assert parts.begin(manifest) == set()
    table = ShardEncoder(read_model(model)).encode(shards[0])
    parts.write(0, table)
    assert Parts("s3://bucket/codes").begin(manifest) == {0}
    assert from_parquet(s3.cat_file("bucket/codes/part-000000.parquet")) == table


def test_errors_of_a_client_library_are_one_line(memory, monkeypatch):
    """Like botocore's, they are no OSError."""

    class EndpointConnectionError(Exception):
        pass

    def fail(*_, **__):
        raise EndpointConnectionError("Could not connect\nto the endpoint.")

    memory.pipe_file("/bucket/photo.png", b"any")
    shards, parts = find_shards("memory://bucket"), Parts("memory://bucket/codes")
    for name in ("find", "info", "exists"):
        monkeypatch.setattr(type(memory), name, fail)
    for attempt in (lambda: find_shards("memory://bucket"), lambda: read(shards)):
        with pytest.raises(DataError, match=r"cannot be read \(Could not connect to the endpoint\); run the same"):
            attempt()
    with pytest.raises(ArtefactError, match=r"memory://bucket/codes cannot be used \(Could not connect to the"):
        parts.begin(None)


def test_a_table_elsewhere_lists_images_and_labels(photos, memory):
    memory.put(str(photos), "/bucket/photos", recursive=True)
    memory.pipe_file("/bucket/t.csv", b"path,label\nphotos/a/0.png,cat\nmemory://bucket/photos/b/1.png,dog\n")
    found = read(find_shards("memory://bucket/t.csv"))
    assert [(image.address, image.labels) for image in found] == [
        ("memory://bucket/photos/a/0.png", ("cat",)),
        ("memory://bucket/photos/b/1.png", ("dog",)),
    ]
    assert found[1].data == (photos / "b" / "1.png").read_bytes()


def test_an_archive_has_labels_and_metadata(archive):
    (shard,) = find_shards(str(archive.parent / "train-*.tar"))
    found = list(read_shard(shard))
    assert [image.address for image in found] == [f"{archive}/000{place}.png" for place in range(4)]
    assert [image.labels for image in found] == [(), ("cat",), (), ("cat",)]
    assert [image.metadata for image in found] == ["{}", '{"place": 1}', '{"place": 2}', '{"place": 3}']


def test_a_damaged_archive_gives_what_comes_before_the_damage(archive):
    archive.write_bytes(archive.read_bytes()[:5000])
    found = read(find_shards(str(archive)))
    assert 0 < len(found) < 5
    assert found[-1].data is None
    assert "damaged archive" in found[-1].error


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        ("memory://nothing", "no images"),
        ("nosuch://bucket/x", "is no address"),
        ("ftp://127.0.0.1:1/x", "cannot be reached"),
    ],
)
def test_a_source_without_images_is_one_line(source, reason):
    with pytest.raises(DataError, match=reason) as caught:
        find_shards(source)
    assert "\n" not in str(caught.value)


def test_a_password_in_an_address_is_refused_and_not_repeated():
    with pytest.raises(InvalidInput, match="Leave the password out") as caught:
        find_shards("ftp://me:secret@127.0.0.1/x")
    assert "secret" not in str(caught.value)
