"""Results as files, and reports of them."""

import json

import pytest
from handmade import new_content

from ddsh.report import read_folder, write_report


@pytest.fixture
def put(tmp_path):
    """Write a result, or anything else, into a folder of results."""

    def to_file(content, name=None):
        usual = "x.json" if isinstance(content, str) else "{label}-{n_bits}bits-seed{seed}.json".format_map(content)
        path = tmp_path / "results" / "map-cifar10" / (name or usual)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content if isinstance(content, str) else json.dumps(content))
        return path

    return to_file


@pytest.fixture
def read(tmp_path):
    """Read all results written so far."""
    return lambda: read_folder(tmp_path / "results")


@pytest.fixture
def page(tmp_path, read):
    """Write a report of all results written so far, and return its page."""

    def text(formats=()):
        records, problems = read()
        return write_report(records, tmp_path / "report", problems=problems, formats=formats).page.read_text()

    return text


@pytest.fixture(scope="session")
def full_results(tmp_path_factory):
    """Four labels, two lengths and two seeds, with a gap, and a broken file."""
    folder = tmp_path_factory.mktemp("results")
    scores = {"ddsh": 0.7, "dsh": 0.6, "lsh": 0.3, "ours": 0.4}
    for label, score in scores.items():
        for n_bits in (12, 32):
            for seed in (0, 1) if label == "ddsh" else (0,):
                content = new_content(label, n_bits, seed, score + 0.02 * seed + 0.001 * n_bits)
                (folder / f"{label}-{n_bits}bits-seed{seed}.json").write_text(json.dumps(content))
    (folder / "broken.json").write_text('{"experiment": "map-')
    return folder


@pytest.fixture(scope="session")
def full_report(full_results, tmp_path_factory):
    """A report of them."""
    records, problems = read_folder(full_results)
    return write_report(records, tmp_path_factory.mktemp("report"), problems=problems)
