"""Benchmark of search for altered copies: two codes beside float features and perceptual hashes.

Copies of 300 images are cropped, brightened or darkened, recompressed, resized, mirrored, or cropped, brightened and
recompressed at once. Each copy is a query; its recall at k is whether the original is among the first k images of the
database. All ways to search are measured in the same run, on the same images, and label MAP with and without look bits.
Ties count as the mean over all orders of the tied images. The result is a JSON file, and a table made from it.

``python benchmarks/lookalike.py --data DIR`` trains a model for each dataset first (some minutes);
``--model flickr8k=FOLDER`` uses a trained one. It needs ``imagehash``.
"""

import argparse
import hashlib
import io
import json
import logging
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import imagehash
import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageEnhance

import ddsh
from ddsh.backbones import Backbone
from ddsh.codes import BinaryCodes
from ddsh.datasets import Dataset, get_protocol, load
from ddsh.evaluation.metrics import average_precision_of
from ddsh.images import SomeImages
from ddsh.index.pairs import PairDistance
from ddsh.look import Look
from ddsh.model import Model
from ddsh.storage import atomic_write

DATASETS = ("flickr8k", "cifar10")
LOOK_BITS = (64, 128, 256)
HASHES = {"phash": imagehash.phash, "dhash": imagehash.dhash, "whash": imagehash.whash}
TRAINING = {"epochs": 5}
N_TRAIN = 2000
_LOG = logging.getLogger("lookalike")


def crop(image: Image.Image, rng: np.random.Generator) -> Image.Image:
    """Cut a fifth of the width and of the height away."""
    width, height = round(0.8 * image.width), round(0.8 * image.height)
    left, top = (int(rng.integers(0, room + 1)) for room in (image.width - width, image.height - height))
    return image.crop((left, top, left + width, top + height))


def brightness(image: Image.Image, rng: np.random.Generator) -> Image.Image:
    """Make the image a fifth brighter or darker."""
    return ImageEnhance.Brightness(image).enhance(float(rng.choice([0.8, 1.2])))


def jpeg(image: Image.Image, _: np.random.Generator) -> Image.Image:
    """Save the image as JPEG of quality 50."""
    file = io.BytesIO()
    image.save(file, "JPEG", quality=50)
    return Image.open(file).convert("RGB")


def resize(image: Image.Image, _: np.random.Generator) -> Image.Image:
    """Halve width and height."""
    return image.resize((max(1, image.width // 2), max(1, image.height // 2)), Image.Resampling.BICUBIC)


def flip(image: Image.Image, _: np.random.Generator) -> Image.Image:
    """Mirror the image."""
    return image.transpose(Image.Transpose.FLIP_LEFT_RIGHT)


def together(image: Image.Image, rng: np.random.Generator) -> Image.Image:
    """Crop, brighten and recompress the image."""
    return jpeg(brightness(crop(image, rng), rng), rng)


ALTERATIONS: dict[str, Callable[[Image.Image, np.random.Generator], Image.Image]] = {
    "crop": crop,
    "brightness": brightness,
    "jpeg": jpeg,
    "resize": resize,
    "flip": flip,
    "together": together,
}
SINGLE = tuple(name for name in ALTERATIONS if name != "together")


def train(dataset: Dataset, rows: NDArray[Any]) -> Model:
    """Train DDSH with few epochs."""
    method = ddsh.DDSH.from_description({"n_bits": 32, "training": TRAINING})
    model = Model(method, Backbone("efficientnet-lite0", image_size=112, n_frozen=6), look_bits=0)
    return model.fit(SomeImages(dataset.images, rows), dataset.labels.take(rows))


class Views:
    """Everything that is compared, of some images: features, label bits and perceptual hashes."""

    def __init__(self, model: Model, images: Iterator[Image.Image], *, hashes: bool = True) -> None:
        network, method = model.network, model.method
        assert network is not None, "a model with a trained network is needed"
        assert method is not None, "a model with a trained network is needed"
        trained: Any = getattr(getattr(method, "learned_", None), "regression", method)
        stages = network.backbone.look_stages()
        outputs, features = [], []
        self.hashes: dict[tuple[str, int], BinaryCodes] = {}
        bits: dict[tuple[str, int], list[NDArray[Any]]] = {
            (name, size): [] for name in HASHES for size in (8, 16) if hashes
        }
        for block in _blocks(images, 128):
            found = trained.project_with_look([np.asarray(image) for image in block], stages)
            outputs.append(found[0])
            features.append(found[1])
            for (name, size), rows in bits.items():
                rows += [HASHES[name](image, hash_size=size).hash.reshape(-1) for image in block]
        self.label = BinaryCodes.from_outputs(np.concatenate(outputs))
        self.features = [np.concatenate(column) for column in zip(*features, strict=True)]
        self.hashes = {key: BinaryCodes.from_bits(np.stack(rows)) for key, rows in bits.items()}


def _blocks(items: Iterator[Any], size: int) -> Iterator[list[Any]]:
    block: list[Any] = []
    for item in items:
        block.append(item)
        if len(block) == size:
            yield block
            block = []
    if block:
        yield block


def recall(distances: NDArray[Any], k: int) -> float:
    """Return how often item i, the original of query i, is among the first k; the mean over orders of ties."""
    own = distances[np.arange(len(distances)), np.arange(len(distances))][:, None]
    before, tied = (distances < own).sum(axis=1), (distances == own).sum(axis=1)
    return float(np.clip((k - before) / tied, 0, 1).mean())


def mean_average_precision(distances: NDArray[Any], similar: NDArray[np.bool_]) -> float:
    """Return MAP of the whole ranking, with ties in random order."""
    rng = np.random.default_rng(0)
    orders = (np.lexsort((rng.random(len(row)), row)) for row in distances)
    found = [
        average_precision_of(np.flatnonzero(hits[order]), None, "retrieved")
        for order, hits in zip(orders, similar, strict=True)
    ]
    return float(np.mean(found))


def measure(name: str, folder: str | None, options: argparse.Namespace) -> dict[str, Any]:
    """Return all figures of one dataset."""
    dataset = load(name, root=options.data)
    split = get_protocol(dataset.protocol).split(dataset, 0)
    rng = np.random.default_rng(0)
    train_rows = rng.permutation(split.train)[:N_TRAIN]
    others = rng.permutation(np.setdiff1d(split.database, split.train))
    database = others[: options.n_database]
    queries = rng.permutation(split.query)[: options.n_query]
    start = time.perf_counter()
    model = Model.load(folder) if folder else train(dataset, train_rows)
    _LOG.info("%s: model ready after %.0f s", name, time.perf_counter() - start)

    def pictures(rows: NDArray[Any], change: str | None = None) -> Iterator[Image.Image]:
        """Yield images, altered if asked."""
        draws = np.random.default_rng(1)
        for row in rows.tolist():
            image = Image.fromarray(dataset.images[row]).convert("RGB")
            yield image if change is None else ALTERATIONS[change](image, draws)

    learned = Views(model, pictures(train_rows), hashes=False)
    stored = Views(model, pictures(database), hashes=options.hashes)
    some = database[: options.n]
    copies = {change: Views(model, pictures(some, change), hashes=options.hashes) for change in ALTERATIONS}
    asked = Views(model, pictures(queries), hashes=False)
    _LOG.info("%s: images encoded after %.0f s", name, time.perf_counter() - start)
    looks = {bits: Look(bits).fit(learned.features) for bits in LOOK_BITS}
    similar = dataset.labels.take(queries).similar(dataset.labels.take(database))

    Way = Callable[[Views], NDArray[Any]]
    ways: dict[str, Way] = {"label 32": lambda one: one.label.hamming(stored.label)}
    n_bytes = {"label 32": 4}
    for bits, look in looks.items():
        codes, distance = look.encode(stored.features), PairDistance(32, bits)

        def by_look(one: Views, look: Look = look, codes: BinaryCodes = codes) -> NDArray[Any]:
            return look.encode(one.features).hamming(codes).astype(np.int64)

        def by_both(one: Views, by_look: Way = by_look, distance: PairDistance = distance) -> NDArray[Any]:
            found = by_look(one)  # ties by look bits
            return distance.of(one.label.hamming(stored.label), found) * (distance.look_bits + 1) + found

        ways |= {f"look {bits}": by_look, f"both 32 + {bits}": by_both}
        n_bytes |= {f"look {bits}": bits // 8, f"both 32 + {bits}": 4 + bits // 8}
    scale = looks[LOOK_BITS[-1]].scaled  # the same for all numbers of bits
    floats = scale(stored.features).astype(np.float32)
    ways["float cosine"] = lambda one: -scale(one.features).astype(np.float32) @ floats.T
    n_bytes["float cosine"] = 4 * floats.shape[1]
    for hash_name, size in stored.hashes:
        key = f"{hash_name} {size * size}"

        def by_hash(one: Views, key: tuple[str, int] = (hash_name, size)) -> NDArray[Any]:
            return one.hashes[key].hamming(stored.hashes[key])

        ways[key] = by_hash
        n_bytes[key] = size * size // 8
    rows = {}
    for way, distances in ways.items():
        by_change = {change: distances(views) for change, views in copies.items()}
        row: dict[str, Any] = {"bytes": n_bytes[way]}
        for k in (1, 20):
            row[f"recall at {k}"] = {change: round(recall(found, k), 4) for change, found in by_change.items()}
            row[f"mean recall at {k}"] = round(float(np.mean([row[f"recall at {k}"][change] for change in SINGLE])), 4)
        if way.startswith(("label", "look", "both")):
            row["label MAP"] = round(mean_average_precision(distances(asked), similar), 4)
        rows[way] = row
        _LOG.info(
            "%-10s %-14s %5d bytes  at 1 %.3f, at 20 %.3f; together %.3f, %.3f; label MAP %s",
            name, way, row["bytes"], row["mean recall at 1"], row["mean recall at 20"],
            row["recall at 1"]["together"], row["recall at 20"]["together"], row.get("label MAP", "-"),
        )  # fmt: skip
    facts = {"n_copies": options.n, "n_database": len(database), "n_query": len(queries), "n_train": len(train_rows)}
    return facts | {"fingerprint": model.fingerprint, "seconds": time.perf_counter() - start, "ways": rows}


def make_table(found: dict[str, Any]) -> str:
    """Return the Markdown table of docs/explanation/two-codes.md from the content of the JSON file."""
    titles = {"flickr8k": "Flickr8k", "cifar10": "CIFAR-10"}
    datasets = {name: found["datasets"][name]["ways"] for name in DATASETS if name in found["datasets"]}
    head = ["", "bytes", *(title for name in datasets for title in (titles[name], "together", "label MAP"))]
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]

    def short(value: float) -> str:
        """Return three digits, as in .875."""
        return f"{value:.3f}".removeprefix("0")

    for way in next(iter(datasets.values())):
        cells = [f"**{way}**" if way.startswith("both") else way]
        for place, rows in enumerate(datasets.values()):
            row = rows[way]
            cells += [f"{row['bytes']:,}"] if place == 0 else []
            at = [row[f"mean recall at {k}"] for k in (1, 20)], [row[f"recall at {k}"]["together"] for k in (1, 20)]
            cells += [" / ".join(map(short, values)) for values in at]
            cells.append(short(row["label MAP"]) if "label MAP" in row else "")
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def main() -> None:
    """Measure all datasets and write the JSON file."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True, help="folder that holds the datasets")
    parser.add_argument("--dataset", action="append", choices=DATASETS, help="dataset; both by default")
    parser.add_argument("--model", action="append", default=[], metavar="DATASET=FOLDER", help="a trained model")
    parser.add_argument("--n", type=int, default=300, help="number of images that are altered")
    parser.add_argument("--n-database", type=int, default=3000, help="number of images to search")
    parser.add_argument("--n-query", type=int, default=300, help="number of queries of label MAP")
    parser.add_argument("--no-hashes", dest="hashes", action="store_false", help="leave out the perceptual hashes")
    parser.add_argument("--out", type=Path, default=Path("lookalike.json"), help="the JSON file")
    options = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(message)s", stream=sys.stdout)
    folders = dict(given.split("=", 1) for given in options.model)
    found = {name: measure(name, folders.get(name), options) for name in options.dataset or DATASETS}
    source = hashlib.sha256(Path(__file__).read_bytes()).hexdigest()
    with atomic_write(options.out) as file:
        file.write(json.dumps({"benchmark": source, "datasets": found}, indent=2).encode())
    _LOG.info("%s", make_table({"datasets": found}))


if __name__ == "__main__":
    main()
