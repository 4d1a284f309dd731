"""One pass of DDSH beside a bare forward-backward-step pass of the same network on the same images, in one run.

Usage: python benchmarks/train.py [REPEATS]
"""

import statistics
import sys
import time

import numpy as np
import torch

from ddsh.datasets import get_protocol, load
from ddsh.labels import Labels
from ddsh.methods._training import Training
from ddsh.methods.ddsh import DDSH
from ddsh.networks import build_network
from ddsh.networks.hashing import HashNetwork

N_IMAGES, N_BITS, BATCH = 5000, 48, 128
SETTING = Training(passes=2, learning_rate=0.1, momentum=0.9, batch_size=BATCH)


def bare_pass(pixels: np.ndarray, network: str) -> float:
    """Return the seconds of the second of two passes that do nothing but learn to put out zero."""
    model = HashNetwork(build_network(network), N_BITS, 0).train()
    optimiser = torch.optim.SGD(model.parameters(), lr=1e-3, momentum=0.9, weight_decay=5e-4)
    for _ in range(2):
        start = time.perf_counter()
        for first in range(0, len(pixels), BATCH):
            loss = torch.tanh(model(torch.from_numpy(pixels[first : first + BATCH]))).square().mean()
            optimiser.zero_grad(set_to_none=True)
            loss.backward()  # type: ignore[no-untyped-call]
            optimiser.step()
    return time.perf_counter() - start


def ddsh_pass(images: np.ndarray, labels: Labels, network: str) -> float:
    """Return the seconds of the second of two passes of DDSH: discrete coding, training, codes kept up to date."""
    marks = []
    method = DDSH(N_BITS, network=network, training=SETTING)
    method.fit(images, labels, on_step=lambda step: marks.append((step.done, time.perf_counter())))
    n_batches = len(marks) // 2
    return marks[-1][1] - marks[n_batches - 1][1]


def main() -> None:
    """Alternate the two so that both meet the same noise, and print the ratio per image."""
    repeats = int(sys.argv[1]) if len(sys.argv) > 1 else 3
    sample = load("sample")
    rows = get_protocol("sample").split(sample, 0).train[:N_IMAGES]
    images, labels = np.stack(list(sample.images.take(rows))), sample.labels.take(rows)
    gamma = N_IMAGES - 100
    ratios = []
    for _ in range(repeats):
        bare = bare_pass(images, "small-grey") / N_IMAGES
        ours = ddsh_pass(images, labels, "small-grey") / gamma
        ratios.append(ours / bare)
        print(f"bare pass {1e3 * bare:.3f} ms an image, DDSH's {1e3 * ours:.3f}, ratio {ratios[-1]:.3f}")
    print(f"small-grey, {N_BITS} bits, {N_IMAGES:,} images: median ratio {statistics.median(ratios):.3f}")


if __name__ == "__main__":
    main()
