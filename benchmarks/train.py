"""Time of an epoch of DDSH beside a plain training epoch, and epochs to a MAP beside the authors' schedule.

The epochs train the same network on the same images. Measured in CPU time on one thread, so that other work on the
machine does not count. The two alternate, so that it slows down both. The epochs that the default preset and the
authors' schedule take to the same MAP are read from the results of ``ddsh reproduce epochs-cifar10``. The exit code is
1 if a target is missed.

Usage: ``python benchmarks/train.py [--quick] [--out FILE]``
"""

import argparse
import json
import statistics
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from json_file import json_file
from threadpoolctl import threadpool_limits

from ddsh.backbones import Backbone
from ddsh.backbones.base import preprocess
from ddsh.backbones.network import HashNetwork
from ddsh.datasets import get_protocol, load
from ddsh.evaluation import Result
from ddsh.labels import Labels
from ddsh.methods.ddsh import DDSH
from ddsh.methods.training import Training

N_BITS, N_OMEGA, BATCH = 48, 100, 128
SETTING = Training(epochs=2, learning_rate=1e-3, momentum=0.9, batch_size=BATCH)
CASES = (("efficientnet-lite0", 64, 1100), ("small-grey", 28, 5000))
MOST_RATIO = 1.05
"""Of the default network. The discrete step of the small one, which trains in a moment, has no target."""

SCHEDULES = Path(__file__).parents[1] / "results" / "epochs-cifar10"
SHARES = (0.9, 0.95, 1.0)
LEAST_SAVING = 5


def plain_epoch(images: list[np.ndarray], backbone: Backbone) -> float:
    """Return the CPU seconds of the second of two epochs of a network that learns to return zeros."""
    model = HashNetwork(backbone.build(), N_BITS, 0).train()
    optimiser = torch.optim.SGD(model.parameters(), lr=1e-3, momentum=0.9, weight_decay=5e-4)
    pixels = preprocess(images, backbone.image_size, backbone.n_channels)
    for _ in range(2):
        start = time.process_time()
        for first in range(0, len(pixels), BATCH):
            loss = torch.tanh(model(torch.from_numpy(pixels[first : first + BATCH]))).square().mean()
            optimiser.zero_grad(set_to_none=True)
            loss.backward()  # type: ignore[no-untyped-call]
            optimiser.step()
    return time.process_time() - start


def ddsh_epoch(images: list[np.ndarray], labels: Labels, backbone: Backbone) -> float:
    """Return the CPU seconds of the second of two epochs of DDSH: discrete coding, training and updates of codes."""
    ends = []
    method = DDSH(N_BITS, backbone=backbone, training=SETTING, n_omega=N_OMEGA, warm_up=0)
    method.fit(images, labels, on_step=lambda step: ends.append(time.process_time()))
    return ends[-1] - ends[len(ends) // 2 - 1]


def compare(backbone: Backbone, n_images: int, repeats: int) -> dict[str, Any]:
    """Measure the two in turns, either first in every second pair, and return the median of their ratios."""
    sample = load("sample")
    rows = get_protocol("sample").split(sample, 0).train[:n_images]
    images, labels = list(sample.images.take(rows)), sample.labels.take(rows)
    plain, ours = [], []
    for number in range(repeats):
        if number % 2:
            ours.append(ddsh_epoch(images, labels, backbone))
        plain.append(plain_epoch(images[N_OMEGA:], backbone))
        if not number % 2:
            ours.append(ddsh_epoch(images, labels, backbone))
    ratios = [mine / theirs for mine, theirs in zip(ours, plain, strict=True)]
    # The times of one network differ by a tenth from epoch to epoch; the spread of ratios tells how sure the median is.
    return {
        "network": f"{backbone.name}, {backbone.image_size} pixels, {n_images - N_OMEGA:,} images, {N_BITS} bits",
        "plain seconds": round(min(plain), 3),
        "seconds": round(min(ours), 3),
        "ratio": round(statistics.median(ratios), 3),
        "ratios": [round(ratio, 3) for ratio in ratios],
    }


def epochs_to_map() -> list[dict[str, Any]]:
    """Return the epochs to some shares of the best MAP of the authors' schedule: theirs, and those of the default."""
    histories = {}
    for name in ("tuned", "release"):
        result = Result.read(SCHEDULES / f"ddsh-{name}-32bits-seed0.json")
        histories[name] = {one.epoch: one.map for one in result.history if one.map is not None}
    rows = []
    for share in SHARES:
        wanted = share * max(histories["release"].values())
        reached = {
            name: min((epoch for epoch, found in history.items() if found >= wanted), default=None)
            for name, history in histories.items()
        }
        ours, theirs = reached["tuned"], reached["release"]
        assert theirs is not None, "its best is above every share of it"
        saving = None if ours is None else round(theirs / ours, 1)
        rows.append({"map": round(wanted, 3), "epochs": ours, "of release": theirs, "saving": saving})
    return rows


def main() -> int:
    """Compare on the default backbone, and on a small one, where the discrete step takes the largest share."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="two repetitions instead of eleven")
    parser.add_argument("--out", type=Path, help="JSON file; beside this one, or in build/ with --quick")
    given = parser.parse_args()
    out = given.out or json_file(__file__, quick=given.quick)
    torch.set_num_threads(1)
    threadpool_limits(1)  # for the matrix products of NumPy
    rows = []
    for network, image_size, n_images in CASES:
        rows.append(compare(Backbone(network, image_size=image_size), n_images, 2 if given.quick else 11))
        print(rows[-1], flush=True)
    schedules = epochs_to_map()
    print(*schedules, sep="\n")
    missed = []
    if rows[0]["ratio"] > MOST_RATIO:
        missed.append(f"an epoch takes {rows[0]['ratio']} of a plain one, the target is {MOST_RATIO}")
    for row in schedules:
        if row["saving"] is None or row["saving"] < LEAST_SAVING:
            taken = f"{row['epochs']} epochs, the authors' schedule {row['of release']}"
            missed.append(f"a MAP of {row['map']} takes {taken}, the target is {LEAST_SAVING} times as few")
    for line in missed:
        print(f"missed: {line}")
    out.write_text(json.dumps({"networks": rows, "schedules": schedules, "missed": missed}, indent=2) + "\n")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
