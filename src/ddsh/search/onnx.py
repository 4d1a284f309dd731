"""Models as ONNX files, for programs that have neither ddsh nor PyTorch."""

import importlib.util
import logging
import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ddsh.errors import DdshError, InvalidInput
from ddsh.methods import load_model
from ddsh.search.encoder import Encoder, network_of
from ddsh.storage import atomic_write

if TYPE_CHECKING:
    from torch import nn

    from ddsh.backbones.hash_network import HashNetwork

_NEEDED = ("onnx", "onnxscript")


def export_onnx(model: str | os.PathLike[str], path: str | os.PathLike[str]) -> None:
    """Write the network of a trained model to an ONNX file.

    It takes ``pixels``, uint8 of shape (n, size, size, channels): whole images, upright, resized (bicubic, as Pillow
    does it) to the size that is in the file's metadata. It gives ``outputs``, float32 of shape (n, n_bits), and
    ``bits``, uint8, which are 1 where an output is above zero.

    Parameters
    ----------
    model : path
        Folder of a trained model that has a network.
    path : path
        The file to write.
    """
    saved = load_model(Path(model))
    network = network_of(saved.hasher)
    if network is None:
        raise InvalidInput(f"{saved.hasher.card.name} trained no network, so there is nothing to export as ONNX.")
    missing = [name for name in _NEEDED if importlib.util.find_spec(name) is None]
    if missing:
        raise DdshError(f"The export needs {' and '.join(missing)}. Run: pip install 'ddsh[export]'")
    encoder = Encoder(saved)
    facts = {"n_bits": encoder.n_bits, "fingerprint": encoder.fingerprint, **encoder.preprocessing}
    with atomic_write(path) as file:
        file.write(_serialised(network, {name: str(value) for name, value in facts.items()}))


def _serialised(network: "HashNetwork", facts: dict[str, str]) -> bytes:
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
    assert program is not None, "the exporter returns what it made"
    content: Any = program.model_proto
    for name, value in facts.items():
        content.metadata_props.add(key=f"ddsh.{name}", value=value)
    serialised: bytes = content.SerializeToString()
    return serialised


def _exportable(network: "HashNetwork") -> "nn.Module":
    """Return the network as the exporter can follow it, with the bits as a second output."""
    import torch
    from torch import Tensor, nn

    from ddsh.backbones.folding import fold_batch_norm
    from ddsh.backbones.lrn import LocalResponseNorm

    class WithBits(nn.Module):
        """The network with two outputs: what it puts out, and its bits."""

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
                setattr(module, name, _plain_response_norm())
    return WithBits(plain).eval()


def _plain_response_norm() -> "nn.Module":
    """Return PyTorch's own layer with the same values; it divides its constant by the width of the window."""
    from torch import nn

    return nn.LocalResponseNorm(5, alpha=5 * 1e-4, beta=0.75, k=2.0)


@contextmanager
def _quiet() -> Iterator[None]:
    """Silence what the exporter says about its own making."""
    logger = logging.getLogger("torch.onnx")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.setLevel(level)
