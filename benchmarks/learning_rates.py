"""Held-out MAP of deep methods by learning rate, with every stage of the network frozen.

A cheap search with the same budget for every method: the hash layer alone is trained, for 6 epochs, on 4,000 of
CIFAR-10's training images, without mirroring; 500 others are queries and 500 the database.

    python benchmarks/learning_rates.py --root DATA --cache-dir FEATURES csq dpn
"""

import argparse
import time
from dataclasses import replace

import ddsh
from ddsh.backbones import Backbone
from ddsh.datasets.protocols import get_protocol
from ddsh.errors import Diverged
from ddsh.images import SomeImages
from ddsh.methods import DeepHasher, get_method

RATES = (0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0)


def main() -> None:
    """Print one line per method: the MAP of each rate."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("methods", nargs="+")
    parser.add_argument("--root", required=True)
    parser.add_argument("--cache-dir")
    parser.add_argument("--bits", type=int, default=32)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--rates", type=float, nargs="+", default=RATES)
    given = parser.parse_args()
    dataset = ddsh.load("cifar10", root=given.root)
    split = get_protocol("cifar10-validation").split(dataset, given.seed)
    backbone = Backbone("efficientnet-lite0", image_size=112, n_frozen=18, cache_dir=given.cache_dir)
    parts = [
        (SomeImages(dataset.images, rows), dataset.labels.take(rows))
        for rows in (split.train, split.query, split.database)
    ]
    (train, train_labels), (query, query_labels), (database, database_labels) = parts
    for name in given.methods:
        method = get_method(name)
        assert issubclass(method, DeepHasher), f"{name} is not a deep method"
        begun, scores = time.process_time(), []
        for rate in given.rates:
            schedule = replace(method()._schedule().scaled(rate), epochs=6, flip=False, head_factor=1.0)
            hasher = method(given.bits, backbone=backbone, training=schedule, seed=given.seed)
            try:
                hasher.fit(train, train_labels)
            except Diverged:
                scores.append("diverged")
                continue
            codes, answers = hasher.encode(query), hasher.encode(database)
            scores.append(f"{ddsh.score(codes, answers, query_labels, database_labels).map:.3f}")
        row = ", ".join(f"{rate:g}: {score}" for rate, score in zip(given.rates, scores, strict=True))
        print(f"{name} ({time.process_time() - begun:.0f} s): {row}", flush=True)


if __name__ == "__main__":
    main()
