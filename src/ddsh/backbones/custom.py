"""Custom networks: any module that maps images to features."""

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor, nn

from ddsh.backbones.network import IMAGENET_MEAN, IMAGENET_STD, Network
from ddsh.errors import InvalidInput

__all__ = ["CustomNetwork"]


class CustomNetwork(Network):
    """Wrap a module as a backbone.

    The module maps float images, shape (n, channels, size, size), to features, shape (n, d).

    Parameters
    ----------
    module : nn.Module
        The network; d is found by one forward pass.
    image_size : int
        Side of the square that images are resized to.
    mean, std : sequence of float, one for each channel (1 or 3)
        Pixels, 0 to 255, become (pixel - mean) / std. The default is that of torchvision's networks.
    frozen_batch_norm : bool
        Do not update the statistics of batch normalisation in training (for pretrained networks).
    """

    def __init__(
        self,
        module: nn.Module,
        image_size: int = 224,
        *,
        mean: Sequence[float] = tuple(IMAGENET_MEAN.ravel()),
        std: Sequence[float] = tuple(IMAGENET_STD.ravel()),
        frozen_batch_norm: bool = True,
    ) -> None:
        if len(mean) not in (1, 3) or len(std) != len(mean):
            raise InvalidInput(f"mean and std have one number for each of 1 or 3 channels; got {mean} and {std}.")
        planes = [np.asarray(numbers, np.float64).reshape(-1, 1, 1) for numbers in (mean, std)]
        device = next((parameter.device for parameter in module.parameters()), torch.device("cpu"))
        images = torch.zeros(1, len(mean), image_size, image_size, device=device)
        try:
            with torch.no_grad():
                out = module.eval()(images)
        except (RuntimeError, ValueError, TypeError) as error:
            reason = str(error).partition("\n")[0]
            raise InvalidInput(f"The network cannot take images of shape {tuple(images.shape)}: {reason}") from error
        if not isinstance(out, Tensor) or out.ndim != 2 or len(out) != 1:
            got = f"shape {tuple(out.shape)}" if isinstance(out, Tensor) else type(out).__name__
            raise InvalidInput(f"The network must map images (n, channels, size, size) to features (n, d); got {got}.")
        super().__init__(image_size, out.shape[1], mean=planes[0], std=planes[1], frozen_batch_norm=frozen_batch_norm)
        self.module = module
        self.to(device).train()

    def stages(self) -> list[nn.Module]:
        """Return the module, or its children if it is an ``nn.Sequential``."""
        return list(self.module) if isinstance(self.module, nn.Sequential) else [self.module]
