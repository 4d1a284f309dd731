import json
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread


def test_check_lists_broken_files_and_strict_refuses_them(ddsh, photos, fails_in_one_line):
    (photos / "cat" / "bad [red].jpg").write_bytes(b"nothing")
    outcome = ddsh("data", "check", photos)
    assert outcome.returncode == 0
    assert "photos: 24 images" in outcome.stdout
    assert "Broken files, left out: 1" in outcome.stdout
    assert "bad [red].jpg" in outcome.stdout
    fails_in_one_line(ddsh("data", "check", photos, "--strict"), "bad [red].jpg", "1 ")


def test_check_prints_json(ddsh, photos):
    found = json.loads(ddsh("data", "check", photos, "--json").stdout)
    assert found["class_counts"] == {"cat": 12, "dog": 12}
    assert len(found["split"]) == 64


def test_list_shows_where_datasets_are(program, tmp_path):
    (tmp_path / "cifar-10-batches-bin").mkdir()
    (tmp_path / "svhn").mkdir()
    for name in ("train", "test"):
        (tmp_path / "svhn" / f"{name}_32x32.mat").touch()
    outcome = program("data", "list", "--json", DDSH_DATA=str(tmp_path))
    found = {card["name"]: card["found"] for card in json.loads(outcome.stdout)}
    assert found["svhn"] == str(tmp_path / "svhn")
    assert found["cifar10"] is None
    table = program("data", "list").stdout
    assert "with the package" in table
    assert "not found" in table


def test_fetch_from_a_mirror_with_other_content_is_refused(ddsh, tmp_path):
    served, root = tmp_path / "served", tmp_path / "root"
    served.mkdir()
    (served / "train-images-idx3-ubyte.gz").write_bytes(b"something else")

    class Quiet(SimpleHTTPRequestHandler):
        def __init__(self, *arguments):
            super().__init__(*arguments, directory=str(served))

        def log_message(self, *arguments):
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Quiet) as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        mirror = f"http://127.0.0.1:{server.server_address[1]}"
        outcome = ddsh("data", "fetch", "mnist", "--root", root, "--mirror", mirror, "--timeout", 2)
        server.shutdown()
        thread.join()
    assert outcome.returncode == 2
    assert outcome.stderr.splitlines()[-1].startswith("ddsh: ")
    assert not (root / "mnist" / "train-images-idx3-ubyte.gz").exists()


def test_fetch_to_a_folder_that_cannot_be_written_fails_before_the_download(ddsh, tmp_path, fails_in_one_line):
    (tmp_path / "file").touch()
    fails_in_one_line(ddsh("data", "fetch", "mnist", "--root", tmp_path / "file" / "data"), "Not a directory")
