"""Stripes: made-up images of horizontal, vertical and diagonal stripes."""

import numpy as np

from ddsh.datasets import Dataset
from ddsh.images import ArrayImages
from ddsh.labels import as_labels

CLASS_NAMES = ("horizontal", "vertical", "diagonal")


def load() -> Dataset:
    """Return 180 images of 16 x 16 pixels, 60 of each class; they are the same on every machine."""
    labels = np.arange(180) % len(CLASS_NAMES)
    rng = np.random.default_rng(0)
    x, y = np.meshgrid(np.arange(16), np.arange(16))
    along = np.stack([y, x, x + y])[labels] + rng.integers(0, 4, (len(labels), 1, 1))
    pixels = np.where(along % 4 < 2, 180, 60) + rng.integers(0, 60, along.shape)
    images = np.repeat(pixels[..., None], 3, axis=3).astype(np.uint8)
    return Dataset(
        name="stripes",
        images=ArrayImages(lambda: images, len(images), "stripes"),
        labels=as_labels(labels),
        class_names=CLASS_NAMES,
    )
