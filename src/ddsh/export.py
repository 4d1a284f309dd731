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

__all__ = ["export_encoder", "export_onnx"]


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
    facts = {"n_bits": model.n_bits, "fingerprint": model.fingerprint, **model.preprocessing}
    _write(_exportable(network), network.backbone, ("outputs", "bits"), facts, path)


def export_encoder(model: "Model", path: str | os.PathLike[str]) -> None:
    """Write the network of a model to an ONNX file, with everything that label bits and look bits are computed from.

    The file takes ``pixels`` as that of :func:`export_onnx` does. It returns ``outputs``, if the model trained a
    network, and the features of the look bits, ``look_0`` and so on, as
    :meth:`ddsh.backbones.network.Network.finish_with_look` does.

    Parameters
    ----------
    model : Model
        A fitted model with look bits that trained a network, or that has look bits only.
    path : path
        The file to write.
    """
    import torch
    from torch import Tensor, nn

    if model.look is None or model.backbone is None or (model.network is None and model.method is not None):
        raise InvalidInput(
            f"{model.name} has no look bits, or label bits from features; its encoder cannot be exported."
        )
    stages = model.look.stages

    class WithLook(nn.Module):
        """The network with the outputs of the hash layer, if it has one, and the features of look bits."""

        def __init__(self, network: nn.Module, head: nn.Module | None) -> None:
            super().__init__()
            self.network, self.head = network, head

        def forward(self, pixels: Tensor) -> tuple[Tensor, ...]:
            """Return everything that the codes are computed from."""
            network: Any = self.network
            found: tuple[Tensor, ...] = network.finish_with_look(network.begin(pixels, 0), 0, stages)
            return found if self.head is None else (self.head(found[-1]), *found)

    if model.network is None:
        network, head = _plain(model.backbone.build()), None
    else:
        trained: Any = _plain(model.network)
        network, head = trained.backbone, trained.head
    names = (*(() if head is None else ("outputs",)), *(f"look_{number}" for number in range(len(stages) + 1)))
    with torch.no_grad():
        _write(WithLook(network, head).eval(), network, names, {"fingerprint": model.fingerprint}, path)


def _write(
    module: "nn.Module",
    network: Any,  # noqa: ANN401 -- a Network; importing it would import PyTorch
    names: tuple[str, ...],
    facts: dict[str, Any],
    path: str | os.PathLike[str],
) -> None:
    """Export a module that takes the pixels of a network."""
    missing = [name for name in ("onnx", "onnxscript") if importlib.util.find_spec(name) is None]
    if missing:
        raise MissingExtra("The export", " and ".join(missing), "export")
    import torch

    pixels = torch.zeros((2, network.image_size, network.image_size, network.n_channels), dtype=torch.uint8)
    with _quiet():
        program = torch.onnx.export(
            module,
            (pixels,),
            input_names=["pixels"],
            output_names=list(names),
            dynamic_shapes=({0: torch.export.Dim("n")},),
            dynamo=True,
            verbose=False,
        )
    assert program is not None, "the exporter returns a program"
    content: Any = program.model_proto
    for name, value in facts.items():
        content.metadata_props.add(key=f"ddsh.{name}", value=str(value))
    with atomic_write(path) as file:
        file.write(content.SerializeToString())


def _exportable(network: "HashNetwork") -> "nn.Module":
    """Return a copy for the exporter, with the bits as a second output."""
    import torch
    from torch import Tensor, nn

    class WithBits(nn.Module):
        """The network with two outputs: real outputs and bits."""

        def __init__(self, network: nn.Module) -> None:
            super().__init__()
            self.network = network

        def forward(self, pixels: Tensor) -> tuple[Tensor, Tensor]:
            """Return outputs and bits of prepared pixels."""
            outputs = self.network(pixels)
            return outputs, (outputs > 0).to(torch.uint8)

    return WithBits(_plain(network)).eval()


def _plain(network: "nn.Module") -> "nn.Module":
    """Return a copy on the CPU with batch normalisation folded into it, of layers that the exporter knows."""
    from torch import nn

    from ddsh.backbones.layers import LocalResponseNorm, fold_batch_norm

    plain = fold_batch_norm(network).cpu()
    for module in list(plain.modules()):
        for name, child in list(module.named_children()):
            if isinstance(child, LocalResponseNorm):
                # PyTorch's layer with the same values; it divides alpha by the width of the window.
                setattr(module, name, nn.LocalResponseNorm(5, alpha=5 * 1e-4, beta=0.75, k=2.0))
    return plain


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
