import numpy as np
import pytest


@pytest.fixture
def images(rng):
    """Three kinds of textures with noise, and what they are."""
    labels = np.arange(90) % 3
    y, x = np.mgrid[:8, :8]
    kinds = np.stack([(x % 2), (y % 2), (x + y) % 2]) * 150
    return (kinds[labels] + rng.integers(0, 90, (90, 8, 8))).astype(np.uint8)[..., None], labels
