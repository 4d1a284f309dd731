"""Results made by hand."""

import base64
import io

from PIL import Image


def _sheet(columns, rows, tile=8):
    image = Image.new("RGB", (columns * tile, rows * tile))
    for x in range(columns):
        for y in range(rows):
            image.paste((12 * x, 90 * y, 120), (x * tile, y * tile, (x + 1) * tile, (y + 1) * tile))
    file = io.BytesIO()
    image.save(file, "JPEG")
    return "data:image/jpeg;base64," + base64.b64encode(file.getvalue()).decode()


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
    return {"tile": 8, "columns": 21, "sheet": _sheet(21, 2), "queries": queries}


def old_content(label="ddsh", n_bits=12, seed=0, score=0.5, **changes):
    """A result as the first ones were: what came later is absent."""
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


def new_content(label="ddsh", n_bits=12, seed=0, score=0.5, **changes):
    """A result with all that there is."""
    added = {
        "weights": "5c7c2dd5" * 8,
        "image_size": 112,
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
    return old_content(label, n_bits, seed, score) | added | changes


def bare_content(label="ddsh", n_bits=12, seed=0, score=0.5, **changes):
    """A result with nothing but what it must have: no figure can be drawn of it."""
    content = old_content(label, n_bits, seed, score)
    for name in ("history", "seconds", "versions"):
        del content[name]
    return content | {"scores": {"map": score, "map_low": score - 0.1, "map_high": score + 0.1}} | changes
