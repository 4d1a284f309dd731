"""Held-out MAP of deep methods by learning rate, with the network frozen.

A cheap search with the same budget for every method: the hash layer alone is trained, for 12 epochs, on the features of
1,000 training images of a dataset; other training images, those that the protocol holds out, are queries and database.

    python benchmarks/learning_rates.py --root DATA --cache-dir FEATURES csq dpn
    python benchmarks/learning_rates.py --root DATA --protocol flickr8k-held-out-30 csq dpn
"""

import argparse
import time
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

import ddsh
from ddsh.backbones import Backbone
from ddsh.backbones.network import HashNetwork, Network
from ddsh.codes import BinaryCodes
from ddsh.datasets.protocols import get_protocol
from ddsh.errors import Diverged
from ddsh.images import SomeImages
from ddsh.labels import Labels, draw_stratified
from ddsh.methods import DeepHasher, get_method
from ddsh.methods._loop import TrainingLoop

RATES = (0.003, 0.01, 0.03, 0.1, 0.3, 1.0)
N_TRAIN = 1000
N_EPOCHS = 12


class FeatureBatches:
    """Mini-batches of features.

    Parameters
    ----------
    features : ndarray, shape (n, d)
        The features.
    """

    def __init__(self, features: NDArray[np.float32]) -> None:
        self._features = features

    def take(self, rows: NDArray[np.integer[Any]], rng: np.random.Generator) -> NDArray[np.float32]:
        """Return the features of the given rows."""
        taken: NDArray[np.float32] = self._features[rows]
        return taken

    def digest(self) -> str:
        """Return no checksum: there are no checkpoints."""
        return ""


def train_head(method: DeepHasher, features: NDArray[np.float32], labels: Labels) -> torch.nn.Linear:
    """Return the hash layer of a method, trained on features."""
    stub = Network(8, features.shape[1], mean=np.zeros(1), std=np.ones(1))
    stub.stages = list  # type: ignore[method-assign]  # all stages are frozen
    method.model_ = HashNetwork(stub, method.n_bits, method.seed)
    method._features_before = features
    method._begin_fit(labels)
    TrainingLoop(method, FeatureBatches(features), None).run(None)
    method._end_fit()
    return method.model_.head


def main() -> None:
    """Print one line per method: the MAP of each rate."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("methods", nargs="+")
    parser.add_argument("--root", required=True)
    parser.add_argument("--protocol", default="cifar10-validation")
    parser.add_argument("--cache-dir")
    parser.add_argument("--bits", type=int, default=32)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--rates", type=float, nargs="+", default=RATES)
    given = parser.parse_args()
    dataset = ddsh.load(given.protocol.split("-")[0], root=given.root)
    split = get_protocol(given.protocol).split(dataset, given.seed)
    backbone = Backbone("efficientnet-lite0", image_size=112, n_frozen=18, cache_dir=given.cache_dir)
    rng = np.random.default_rng(given.seed)
    train = split.train[draw_stratified(dataset.labels.take(split.train), N_TRAIN, rng)]
    rows = {"train": train, "query": split.query, "database": split.database}
    labels = {part: dataset.labels.take(chosen) for part, chosen in rows.items()}
    features = {part: backbone.features(SomeImages(dataset.images, chosen)) for part, chosen in rows.items()}
    for name in given.methods:
        cls = get_method(name)
        assert issubclass(cls, DeepHasher), f"{name} is not a deep method"
        begun, scores = time.process_time(), []
        for rate in given.rates:
            schedule = replace(cls()._schedule().scaled(rate), epochs=N_EPOCHS, flip=False, head_factor=1.0)
            try:
                method = cls(given.bits, backbone=backbone, training=schedule, seed=given.seed)
                head = train_head(method, features["train"], labels["train"])
            except Diverged:
                scores.append("diverged")
                continue
            with torch.inference_mode():
                query, database = (
                    BinaryCodes.from_outputs(head(torch.from_numpy(features[part])).numpy())
                    for part in ("query", "database")
                )
            scores.append(f"{ddsh.score(query, database, labels['query'], labels['database']).map:.3f}")
        row = ", ".join(f"{rate:g}: {score}" for rate, score in zip(given.rates, scores, strict=True))
        print(f"{name} ({time.process_time() - begun:.0f} s): {row}", flush=True)


if __name__ == "__main__":
    main()
