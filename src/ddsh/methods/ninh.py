"""NINH: network-in-network hashing, triplets and one bit per part."""

import torch
from torch import Tensor
from torch.nn import functional

from ddsh.backbones import Backbone
from ddsh.backbones.network import HashNetwork
from ddsh.errors import InvalidInput
from ddsh.labels import Labels
from ddsh.methods._batch_terms import mean_or_zero, similar_pairs, triplet_gaps
from ddsh.methods._deep import DeepHasher, Rows
from ddsh.methods.base import MethodCard
from ddsh.methods.training import Training

__all__ = ["NINH", "divide_head"]


class NINH(DeepHasher):
    """Network-in-network hashing: a triplet loss, and bits of separate features.

    The features are divided into as many parts as there are bits, and each bit sees one part only, so that bits are
    less redundant. With b = sigmoid(u) of the outputs, the loss of a triplet of an image i, a similar one p and a
    dissimilar one n is

    max(0, margin - ||b_i - b_n||^2 + ||b_i - b_p||^2),

    averaged over all triplets of a mini-batch.

    Parameters
    ----------
    n_bits : int
        Code length.
    margin : float
        Margin of the loss; the paper has 1.
    divide : bool
        Give each bit a part of the features of its own; needs as many features as bits.
    backbone : str or Backbone
        The network to train.
    training : Training, optional
        Training schedule.
    seed : int
        Random seed.

    References
    ----------
    Lai, H., Pan, Y., Liu, Y. and Yan, S. "Simultaneous Feature Learning and Hash Coding with Deep Neural Networks."
    CVPR, 2015. Differs from the paper in the network, in all triplets of a mini-batch instead of sampled ones, and in a
    plain sigmoid instead of one that is cut off around 0.5.
    """

    card = MethodCard(
        name="ninh",
        title="Network-in-network hashing",
        authors="Lai, Pan, Liu, Yan",
        venue="CVPR",
        year=2015,
        supervision="supervised",
        inputs="images",
        deviations=("another network", "no piece-wise threshold", "a rate that falls geometrically"),
    )
    # Chosen with the whole network (family-held-out-cifar10); at 0.1 training fails.
    default_training = Training(epochs=12, learning_rate=0.03, final_lr=3e-4, batch_size=64, momentum=0.9, flip=True)
    needs_whole_batch = True
    above_zero = ("margin",)

    def __init__(
        self,
        n_bits: int = 32,
        *,
        margin: float = 1.0,
        divide: bool = True,
        backbone: str | Backbone = "efficientnet-lite0",
        training: Training | None = None,
        seed: int = 0,
    ) -> None:
        super().__init__(n_bits, backbone=backbone, training=training, seed=seed)
        self.margin = margin
        self.divide = divide

    def _begin_fit(self, labels: Labels) -> None:
        super()._begin_fit(labels)
        if self.divide:
            divide_head(self.model_)

    def _loss(self, outputs: Tensor, rows: Rows) -> Tensor:
        b = torch.sigmoid(outputs)
        norms = b.square().sum(1)
        distances = norms[:, None] + norms - 2 * b @ b.T
        # The gap is the distance to the similar image minus that to the dissimilar one.
        gaps = triplet_gaps(distances, similar_pairs(self._labels, rows, outputs))
        return mean_or_zero(functional.relu(self.margin + gaps))


def divide_head(network: HashNetwork) -> None:
    """Cut all weights of the hash layer but those from a bit's own part of the features, for good."""
    weight = network.head.weight
    n_bits, n_features = weight.shape
    if n_features < n_bits:
        raise InvalidInput(
            f"Each of {n_bits} bits needs a feature of its own, and the network has {n_features}; give divide=False."
        )
    part = torch.arange(n_features) * n_bits // n_features
    mask = (part == torch.arange(n_bits)[:, None]).to(weight)
    with torch.no_grad():
        weight.mul_(mask)
    weight.register_hook(lambda gradient: gradient * mask)  # type: ignore[no-untyped-call]
