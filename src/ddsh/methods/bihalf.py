"""BiHalf: deep unsupervised hashing with balanced bits."""

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from ddsh.backbones import Backbone
from ddsh.methods._deep import DeepHasher, Rows
from ddsh.methods.base import MethodCard
from ddsh.methods.training import Training

__all__ = ["BiHalf"]


class BiHalf(DeepHasher):
    """Deep hashing without labels by a layer whose bits are half +1.

    A bit carries most information if it is +1 for half of the images. The bi-half layer sets it so in every mini-batch,
    at the least cost of transport: the larger half of a bit's outputs becomes +1, the smaller half -1. Its gradient is
    that of the codes b plus gamma (u - b), which pulls the outputs u towards them. The loss is the mean squared
    difference of the cosines of codes and the cosines of the pretrained network's features, over all pairs of a
    mini-batch. New images are encoded by the sign of the outputs.

    Parameters
    ----------
    n_bits : int
        Code length.
    gamma : float
        Weight of the distance between outputs and codes; the authors' release has 6 for CIFAR-10.
    backbone : str or Backbone
        The network to train.
    training : Training, optional
        Training schedule; the default's rate is provisional.
    seed : int
        Random seed.

    References
    ----------
    Li, Y. and van Gemert, J. "Deep Unsupervised Image Hashing by Maximizing Bit Entropy." AAAI, 2021. Differs from the
    paper in the network, in training all stages that are not frozen, where the authors' release trains the hash layer
    alone, in comparing all pairs of a mini-batch instead of its first half with its second, and in centred features.
    """

    card = MethodCard(
        name="bihalf",
        title="Bi-half network",
        authors="Li, van Gemert",
        venue="AAAI",
        year=2021,
        supervision="unsupervised",
        inputs="images",
        deviations=("centred features, all pairs of a mini-batch", "a rate that falls geometrically"),
    )
    # Provisional: a third of the best rates for the hash layer alone (benchmarks/learning_rates.py), at most 0.1.
    default_training = Training(epochs=12, learning_rate=0.002, final_lr=2e-5, batch_size=64, momentum=0.9, flip=True)
    needs_whole_batch = True
    needs_features = True
    loss_weights = ("gamma",)

    def __init__(
        self,
        n_bits: int = 32,
        *,
        gamma: float = 6.0,
        backbone: str | Backbone = "efficientnet-lite0",
        training: Training | None = None,
        seed: int = 0,
    ) -> None:
        super().__init__(n_bits, backbone=backbone, training=training, seed=seed)
        self.gamma = gamma

    def _loss(self, outputs: Tensor, rows: Rows) -> Tensor:
        features = torch.from_numpy(self._features_before[rows]).to(outputs)
        features = features - torch.from_numpy(self._features_before.mean(0)).to(outputs)
        features = functional.normalize(features)
        codes: Tensor = _BiHalfLayer.apply(outputs, self.gamma / outputs.numel())  # type: ignore[no-untyped-call]
        return (codes @ codes.T / self.n_bits - features @ features.T).square().mean()


class _BiHalfLayer(torch.autograd.Function):
    """Codes that are half +1 in each column; the gradient is passed on, with a pull towards the codes."""

    @staticmethod
    def forward(context: Any, outputs: Tensor, gamma: float) -> Tensor:  # noqa: ANN401 -- PyTorch's context
        ranks = torch.argsort(torch.argsort(outputs, dim=0, descending=True, stable=True), dim=0)
        codes = torch.where(ranks < (len(outputs) + 1) // 2, 1.0, -1.0).to(outputs)
        context.save_for_backward(outputs, codes)
        context.gamma = gamma
        return codes

    @staticmethod
    def backward(context: Any, *gradients: Any) -> Any:  # noqa: ANN401
        outputs, codes = context.saved_tensors
        return gradients[0] + context.gamma * (outputs - codes), None
