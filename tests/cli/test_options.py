import os
import subprocess
import sys
from pathlib import Path

import pytest
from typer.main import get_command

from ddsh.cli import app
from ddsh.cli.options import writable_file, writable_folder
from ddsh.errors import ArtefactError, InvalidInput


def test_paths_that_can_be_written_are_returned_and_nothing_is_left_behind(tmp_path):
    (tmp_path / "old.npz").touch()
    for path in (tmp_path, tmp_path / "new" / "deeper"):
        assert writable_folder(path) == path
    for path in (tmp_path / "new.npz", tmp_path / "old.npz", tmp_path / "new" / "codes.npz"):
        assert writable_file(path) == path
    assert writable_file(None) is writable_folder(None) is None
    assert [path.name for path in tmp_path.iterdir()] == ["old.npz"]


def test_relative_paths_are_checked_in_the_working_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert writable_file(Path("codes.npz")) == Path("codes.npz")


def test_a_file_in_place_of_a_folder_is_refused(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(InvalidInput, match="file is a file"):
        writable_folder(tmp_path / "file")
    for check in (writable_folder, writable_file):
        with pytest.raises(ArtefactError, match="Not a directory"):
            check(tmp_path / "file" / "model")


def test_a_folder_or_a_device_in_place_of_a_file_is_refused(tmp_path):
    with pytest.raises(InvalidInput, match="is a folder"):
        writable_file(tmp_path)
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", Path("/dev/full")):
        with pytest.raises(InvalidInput, match="not a regular file"):
            writable_file(path)


def test_a_missing_permission_is_named(tmp_path, monkeypatch):
    def refuse(**_):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("tempfile.TemporaryFile", refuse)
    with pytest.raises(ArtefactError, match=f"{tmp_path}: Permission denied"):
        writable_folder(tmp_path)


def test_a_full_disk_is_named(full_disk):
    (full_disk / "filler").write_bytes(bytes(65_536))
    with pytest.raises(ArtefactError, match="No space left on device"):
        writable_file(full_disk / "codes.npz")
    (full_disk / "filler").unlink()


def parse(*words):
    command = get_command(app)
    for word in words:
        if word not in getattr(command, "commands", {}):
            break
        command, words = command.commands[word], words[1:]
    return command.make_context("ddsh", list(words)).params


@pytest.mark.parametrize(
    ("given", "address"),
    [
        (["--ray"], ""),
        (["--ray", "photos"], ""),
        (["--ray", "auto"], "auto"),
        (["--ray", "head:6379"], "head:6379"),
        (["--ray", "ray://head.example.org:10001"], "ray://head.example.org:10001"),
        (["--ray=10.0.0.1:6379"], "10.0.0.1:6379"),
        ([], None),
    ],
)
def test_the_address_of_a_cluster_may_follow_ray(given, address, tmp_path):
    images = [] if "photos" in given else ["photos"]
    found = parse("encode", "model", *given, *images, "--out", str(tmp_path / "out"))
    assert (found["images"], found["ray"]) == ("photos", address)
    found = parse("index", "create", *given, *images, "--out", str(tmp_path / "out"))
    assert (found["sources"], found["ray"]) == (["photos"], address)


def test_without_ray_the_message_names_the_extra(tmp_path):
    code = "import sys; sys.modules[{!r}] = None; from ddsh.cli import main; main()"
    for package in ("ray", "fsspec", "pyarrow"):
        words = ["encode", "model", "ftp://127.0.0.1:1/x", "--out", "out", "--ray"]
        done = subprocess.run(
            [sys.executable, "-c", code.format(package), *words],
            capture_output=True,
            text=True,
            cwd=tmp_path,
            check=False,
        )
        assert (done.returncode, done.stderr.count("\n")) == (2, 1), done.stderr
        assert "Run: pip install 'ddsh[ray]'" in done.stderr
