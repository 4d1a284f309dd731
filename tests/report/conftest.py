"""Results as files, and reports of them."""

import io
import json

import pytest
from PIL import Image

from ddsh.report import read_folder, write_report


def _sheet(columns, rows, tile=8):
    image = Image.new("RGB", (columns * tile, rows * tile))
    for x in range(columns):
        for y in range(rows):
            image.paste((12 * x, 90 * y, 120), (x * tile, y * tile, (x + 1) * tile, (y + 1) * tile))
    file = io.BytesIO()
    image.save(file, "JPEG")
    return file.getvalue()


def _examples():
    queries = [
        {
            "row": row,
            "label": name,
            "hits": list(range(20)),
            "distances": [hit // 5 for hit in range(20)],
            "labels": [name if hit % 4 else "frog" for hit in range(20)],
            "relevant": [bool(hit % 4) for hit in range(20)],
        }
        for row, name in ((17, "cat"), (23, "ship"))
    ]
    return {"version": 1, "tile": 8, "columns": 21, "sheet": _sheet(21, 2), "queries": queries}


def _old_content(label="ddsh", n_bits=12, seed=0, score=0.5, **changes):
    """A result of the first version, which has no version number."""
    scores = {
        "map": score,
        "map_low": score - 0.1,
        "map_high": score + 0.1,
        "n_query": 1000,
        "n_database": 59000,
        "ties": "expected",
        "precision_at": {"100": score},
        "success_rate": {"0": score - 0.2, "1": score, "2": score + 0.2},
        "precision_recall": {
            "by_radius": {"precision": [0.9, 0.7, 0.1], "recall": [0.2, 0.6, 1.0]},
            "by_rank": {"rank": [1, 10, 100, 59000], "precision": [0.9, 0.8, 0.6, 0.1], "recall": [0.0, 0.1, 0.5, 1.0]},
        },
    }
    return {
        "experiment": "map-cifar10",
        "label": label,
        "method": label,
        "n_bits": n_bits,
        "dataset": "cifar10",
        "protocol": "cifar10",
        "network": "efficientnet-lite0",
        "seed": seed,
        "split": f"{seed}" * 64,
        "params": {"n_bits": n_bits, "seed": seed, "training": {"epochs": 3}, "solver": None},
        "scores": scores,
        "history": [{"pass": step, "loss": 1.0 / step, "objective": 900.0 / step} for step in (1, 2, 3)],
        "seconds": 61.0,
        "versions": {"ddsh": "0.1.0", "python": "3.11.7"},
    } | changes


def _new_content(label="ddsh", n_bits=12, seed=0, score=0.5, **changes):
    """A result with everything; its examples are written beside it."""
    content = _old_content(label, n_bits, seed, score)
    del content["network"]
    added = {
        "version": 2,
        "backbone": {"name": "efficientnet-lite0", "image_size": 112, "n_frozen": 6, "weights": "5c7c2dd5" * 8},
        "params": {"n_bits": n_bits, "seed": seed, "training": {"epochs": 3}, "solver": None},
        "history": [
            {"epoch": step, "loss": 1.0 / step, "objective": 900.0 / step, "map": 0.2 * step} for step in (1, 2, 3)
        ],
        "peak_memory": 3 << 30,
        "commit": "0123456789abcdef" * 2 + "01234567-dirty",
        "machine": {"system": "Linux", "cpu": "A fast one", "cores": 2, "memory": 8 << 30, "device": "cpu"},
        "bits": {
            "share": [0.5 + 0.01 * bit for bit in range(n_bits)],
            "entropy": [0.98] * n_bits,
            "mean_correlation": 0.125,
            "max_correlation": 0.75,
            "n_distinct": 4321,
            "n_codes": 59000,
            "collapsed": False,
        },
        "outputs": {"edges": [-1.0, -0.5, 0.0, 0.5, 1.0], "counts": [40, 10, 5, 45]},
        "examples": _examples(),
    }
    return content | added | changes


def _bare_content(label="ddsh", n_bits=12, seed=0, score=0.5, **changes):
    """A result with nothing but what it must have: no figure can be drawn of it."""
    content = _old_content(label, n_bits, seed, score)
    for name in ("history", "seconds", "versions"):
        del content[name]
    return content | {"scores": {"map": score, "map_low": score - 0.1, "map_high": score + 0.1}} | changes


def _write(path, content):
    """Write a result, its examples beside it, or any text."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if isinstance(content, str):
        path.write_text(content)
        return path
    examples = content.get("examples")
    if examples:
        beside = path.parent / "examples" / path.name
        beside.parent.mkdir(exist_ok=True)
        beside.write_text(json.dumps({name: value for name, value in examples.items() if name != "sheet"}))
        beside.with_suffix(".jpg").write_bytes(examples["sheet"])
    path.write_text(json.dumps({name: value for name, value in content.items() if name != "examples"}))
    return path


@pytest.fixture(scope="session")
def old_content():
    return _old_content


@pytest.fixture(scope="session")
def new_content():
    return _new_content


@pytest.fixture(scope="session")
def bare_content():
    return _bare_content


@pytest.fixture
def put(tmp_path):
    """Write a result, or any text, into a folder of results."""

    def to_file(content, name=None):
        usual = "x.json" if isinstance(content, str) else "{label}-{n_bits}bits-seed{seed}.json".format_map(content)
        return _write(tmp_path / "results" / "map-cifar10" / (name or usual), content)

    return to_file


@pytest.fixture
def read(tmp_path):
    """Read all results written so far."""
    return lambda: read_folder(tmp_path / "results")


@pytest.fixture
def page(tmp_path, read):
    """Write a report of all results written so far, and return its page."""

    def text(formats=(), **options):
        results, problems = read()
        return write_report(
            results, tmp_path / "report", problems=problems, formats=formats, **options
        ).page.read_text()

    return text


@pytest.fixture(scope="session")
def full_results(tmp_path_factory):
    """Four labels, two lengths and two seeds, with a gap, and a broken file."""
    folder = tmp_path_factory.mktemp("results")
    scores = {"ddsh": 0.7, "dsh": 0.6, "lsh": 0.3, "ours": 0.4}
    for label, score in scores.items():
        for n_bits in (12, 32):
            for seed in (0, 1) if label == "ddsh" else (0,):
                content = _new_content(label, n_bits, seed, score + 0.02 * seed + 0.001 * n_bits)
                _write(folder / f"{label}-{n_bits}bits-seed{seed}.json", content)
    (folder / "broken.json").write_text('{"experiment": "map-')
    return folder


@pytest.fixture(scope="session")
def full_report(full_results, tmp_path_factory):
    """A report of them."""
    results, problems = read_folder(full_results)
    return write_report(
        results,
        tmp_path_factory.mktemp("report"),
        problems=problems,
        formats=("svg", "png", "pdf"),
        first=["map-cifar10"],
    )
