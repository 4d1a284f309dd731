"""One pass of DDSH beside a bare forward-backward-step pass of the same network on the same images, in one run.

Measured in CPU time on one thread, so that other work on the machine does not count.

Usage: python benchmarks/train.py [REPEATS]
"""

import statistics
import sys
import time

import numpy as np
import torch
from threadpoolctl import threadpool_limits

from ddsh.backbones.network import HashNetwork
from ddsh.backbones.registry import build_network
from ddsh.datasets import get_protocol, load
from ddsh.labels import Labels
from ddsh.methods.ddsh import DDSH
from ddsh.methods.training import Training

N_BITS, N_OMEGA, BATCH = 48, 100, 128
SETTING = Training(epochs=2, learning_rate=1e-3, momentum=0.9, batch_size=BATCH)
CASES = (("efficientnet-lite0", 64, 1100), ("small-grey", 28, 5000))


def bare_pass(images: list[np.ndarray], network: str, image_size: int) -> float:
    """Return the CPU seconds of the second of two epochs that do nothing but learn to put out zero."""
    model = HashNetwork(build_network(network, image_size=image_size), N_BITS, 0).train()
    optimiser = torch.optim.SGD(model.parameters(), lr=1e-3, momentum=0.9, weight_decay=5e-4)
    pixels = model.backbone.prepare(images)
    for _ in range(2):
        start = time.process_time()
        for first in range(0, len(pixels), BATCH):
            loss = torch.tanh(model(torch.from_numpy(pixels[first : first + BATCH]))).square().mean()
            optimiser.zero_grad(set_to_none=True)
            loss.backward()  # type: ignore[no-untyped-call]
            optimiser.step()
    return time.process_time() - start


def ddsh_pass(images: list[np.ndarray], labels: Labels, network: str, image_size: int) -> float:
    """Return the CPU seconds of the second of two epochs of DDSH: discrete coding, training, codes kept up to date."""
    ends = []
    method = DDSH(N_BITS, network=network, image_size=image_size, training=SETTING, n_omega=N_OMEGA)
    method.fit(images, labels, on_step=lambda step: ends.append(time.process_time()))
    return ends[-1] - ends[len(ends) // 2 - 1]


def compare(network: str, image_size: int, n_images: int, repeats: int) -> None:
    """Alternate the two, so that both meet the same noise, and print the median ratio per image."""
    sample = load("sample")
    rows = get_protocol("sample").split(sample, 0).train[:n_images]
    images, labels = list(sample.images.take(rows)), sample.labels.take(rows)
    ratios = []
    for _ in range(repeats):
        bare = bare_pass(images[N_OMEGA:], network, image_size)
        ours = ddsh_pass(images, labels, network, image_size)
        ratios.append(ours / bare)
    median = statistics.median(ratios)
    print(
        f"{network}, {image_size} pixels, {N_BITS} bits, {n_images - N_OMEGA:,} images: bare pass {bare:.2f} s,"
        f" DDSH's {ours:.2f} s, median ratio {median:.3f} of {', '.join(f'{ratio:.3f}' for ratio in ratios)}"
    )


def main() -> None:
    """Compare on the default network, and on one so small that the discrete step shows most."""
    repeats = int(sys.argv[1]) if len(sys.argv) > 1 else 5
    torch.set_num_threads(1)
    threadpool_limits(1)  # NumPy's matrix products, whose threads would wait for each other on the clock
    for network, image_size, n_images in CASES:
        compare(network, image_size, n_images, repeats)


if __name__ == "__main__":
    main()
