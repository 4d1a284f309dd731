"""Time of an epoch of DDSH, compared with a plain training epoch of the same network on the same images.

Measured in CPU time on one thread, so that other work on the machine does not count.

Usage: python benchmarks/train.py [REPEATS]
"""

import statistics
import sys
import time

import numpy as np
import torch
from threadpoolctl import threadpool_limits

from ddsh.backbones import Backbone
from ddsh.backbones.base import preprocess
from ddsh.backbones.network import HashNetwork
from ddsh.datasets import get_protocol, load
from ddsh.labels import Labels
from ddsh.methods.ddsh import DDSH
from ddsh.methods.training import Training

N_BITS, N_OMEGA, BATCH = 48, 100, 128
SETTING = Training(epochs=2, learning_rate=1e-3, momentum=0.9, batch_size=BATCH)
CASES = (("efficientnet-lite0", 64, 1100), ("small-grey", 28, 5000))


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
    method = DDSH(N_BITS, backbone=backbone, training=SETTING, n_omega=N_OMEGA)
    method.fit(images, labels, on_step=lambda step: ends.append(time.process_time()))
    return ends[-1] - ends[len(ends) // 2 - 1]


def compare(backbone: Backbone, n_images: int, repeats: int) -> None:
    """Alternate the two, so that both see the same noise, and print the median ratio."""
    sample = load("sample")
    rows = get_protocol("sample").split(sample, 0).train[:n_images]
    images, labels = list(sample.images.take(rows)), sample.labels.take(rows)
    ratios = []
    for _ in range(repeats):
        plain = plain_epoch(images[N_OMEGA:], backbone)
        ours = ddsh_epoch(images, labels, backbone)
        ratios.append(ours / plain)
    median = statistics.median(ratios)
    print(
        f"{backbone.name}, {backbone.image_size} pixels, {N_BITS} bits, {n_images - N_OMEGA:,} images: plain epoch"
        f" {plain:.2f} s, DDSH {ours:.2f} s, median ratio {median:.3f}"
        f" of {', '.join(f'{ratio:.3f}' for ratio in ratios)}"
    )


def main() -> None:
    """Compare on the default backbone, and on a small one, where the discrete step takes the largest share."""
    repeats = int(sys.argv[1]) if len(sys.argv) > 1 else 5
    torch.set_num_threads(1)
    threadpool_limits(1)  # for the matrix products of NumPy
    for network, image_size, n_images in CASES:
        compare(Backbone(network, image_size=image_size), n_images, repeats)


if __name__ == "__main__":
    main()
