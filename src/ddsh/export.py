"""Export of trained networks to ONNX."""

import importlib.util
import logging
import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from ddsh.errors import InvalidInput, MissingExtra
from ddsh.storage import atomic_write

if TYPE_CHECKING:
    from torch import nn

    from ddsh.backbones.network import HashNetwork
    from ddsh.model import Model

__all__ = ["export_onnx"]


def export_onnx(model: "Model", path: str | os.PathLike[str]) -> None:
    """Write the network of a trained model to an ONNX file.

    The file runs without ddsh and PyTorch. It takes ``pixels``, uint8 of shape (n, size, size, channels): whole images,
    upright, resized (bicubic, as Pillow does it) to the size in the file's metadata. It returns ``outputs``, float32 of
    shape (n, n_bits), and ``bits``, uint8, which are 1 where an output is above zero.

    Parameters
    ----------
    model : Model
        A fitted model that trained a network.
    path : path
        The file to write.
    """
    network = model.network
    if network is None:
        raise InvalidInput(f"{model.name} trained no network, so there is nothing to export as ONNX.")
    missing = [name for name in ("onnx", "onnxscript") if importlib.util.find_spec(name) is None]
    if missing:
        raise MissingExtra("The export", " and ".join(missing), "export")
    import torch

    backbone = network.backbone
    pixels = torch.zeros((2, backbone.image_size, backbone.image_size, backbone.n_channels), dtype=torch.uint8)
    with _quiet():
        program = torch.onnx.export(
            _exportable(network),
            (pixels,),
            input_names=["pixels"],
            output_names=["outputs", "bits"],
            dynamic_shapes=({0: torch.export.Dim("n")},),
            dynamo=True,
            verbose=False,
        )
    assert program is not None, "the exporter returns a program"
    content: Any = program.model_proto
    facts = {"n_bits": model.n_bits, "fingerprint": model.fingerprint, **model.preprocessing}
    for name, value in facts.items():
        content.metadata_props.add(key=f"ddsh.{name}", value=str(value))
    with atomic_write(path) as file:
        file.write(content.SerializeToString())


def _exportable(network: "HashNetwork") -> "nn.Module":
    """Return a copy for the exporter, with the bits as a second output."""
    import torch
    from torch import Tensor, nn

    from ddsh.backbones.layers import LocalResponseNorm, fold_batch_norm

    class WithBits(nn.Module):
        """The network with two outputs: real outputs and bits."""

        def __init__(self, network: nn.Module) -> None:
            super().__init__()
            self.network = network

        def forward(self, pixels: Tensor) -> tuple[Tensor, Tensor]:
            """Return outputs and bits of prepared pixels."""
            outputs = self.network(pixels)
            return outputs, (outputs > 0).to(torch.uint8)

    plain = fold_batch_norm(network).cpu()
    for module in list(plain.modules()):
        for name, child in list(module.named_children()):
            if isinstance(child, LocalResponseNorm):
                # PyTorch's layer with the same values; it divides alpha by the width of the window.
                setattr(module, name, nn.LocalResponseNorm(5, alpha=5 * 1e-4, beta=0.75, k=2.0))
    return WithBits(plain).eval()


@contextmanager
def _quiet() -> Iterator[None]:
    """Silence the exporter's log and warnings."""
    logger = logging.getLogger("torch.onnx")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.setLevel(level)
