"""DSCH: deep similarity comparison hashing, with weighted bits."""

import torch
from torch import Tensor, nn
from torch.nn import functional

from ddsh.backbones import Backbone
from ddsh.labels import Labels
from ddsh.methods._batch_terms import mean_or_zero, similar_pairs, triplet_gaps
from ddsh.methods._deep import DeepHasher, Rows
from ddsh.methods.base import MethodCard
from ddsh.methods.training import Training

__all__ = ["DSCH"]


class DSCH(DeepHasher):
    """Deep similarity comparison hashing: triplets and weighted bits.

    Every bit has a weight w_k, learned with the network, and d_ij = sum_k w_k (1 - h_ik h_jk) / 2 is a weighted Hamming
    distance, with h = tanh of the outputs. The loss of a triplet of an image i, a similar one p and a dissimilar one n
    is max(0, d_ip - d_in + margin c) / c, averaged over all triplets of a mini-batch. The weights are positive and add
    up to c. After training the bits are ordered by weight, the largest first, so that codes can be cut:
    :meth:`BinaryCodes.first`.

    Parameters
    ----------
    n_bits : int
        Code length c.
    margin : float
        Margin in shares of the code length. The paper has a half, which makes bits equal (``choose-margin-cifar10``).
    backbone : str or Backbone
        The network to train.
    training : Training, optional
        Training schedule.
    seed : int
        Random seed.

    Attributes
    ----------
    model_ : HashNetwork
        The trained network; its outputs are ordered by weight.

    References
    ----------
    Zhang, R., Lin, L., Zhang, R., Zuo, W. and Zhang, L. "Bit-Scalable Deep Hashing with Regularized Similarity Learning
    for Image Retrieval and Person Re-Identification." IEEE Transactions on Image Processing, 2015: its variant without
    the regulariser on neighbours in feature space. Differs from the paper in the network, in all triplets of a
    mini-batch, in weights that add up to c, and in searching by the plain Hamming distance.
    """

    card = MethodCard(
        name="dsch",
        title="Deep similarity comparison hashing",
        authors="Zhang, Lin, Zhang, Zuo, Zhang",
        venue="IEEE TIP",
        year=2015,
        supervision="supervised",
        inputs="images",
        deviations=(
            "another network",
            "a margin of a tenth of the bits instead of half",
            "weights add up to the code length; search by the plain Hamming distance",
        ),
    )
    # Chosen with the whole network (family-held-out-cifar10, choose-margin-cifar10).
    default_training = Training(epochs=12, learning_rate=0.03, final_lr=3e-4, batch_size=64, momentum=0.9, flip=True)
    needs_whole_batch = True
    above_zero = ("margin",)

    def __init__(
        self,
        n_bits: int = 32,
        *,
        margin: float = 0.1,
        backbone: str | Backbone = "efficientnet-lite0",
        training: Training | None = None,
        seed: int = 0,
    ) -> None:
        super().__init__(n_bits, backbone=backbone, training=training, seed=seed)
        self.margin = margin

    def _begin_fit(self, labels: Labels) -> None:
        super()._begin_fit(labels)
        self._helper = nn.ParameterList([torch.zeros(self.n_bits)])

    def _weights(self) -> Tensor:
        assert isinstance(self._helper, nn.ParameterList), "training has begun"
        return torch.softmax(self._helper[0], 0)

    def _loss(self, outputs: Tensor, rows: Rows) -> Tensor:
        h = torch.tanh(outputs)
        distances = (1 - (self._weights().to(outputs) * h) @ h.T) / 2
        gaps = triplet_gaps(distances, similar_pairs(self._labels, rows, outputs))
        return mean_or_zero(functional.relu(gaps + self.margin))

    def _end_fit(self) -> None:
        order = torch.argsort(self._weights(), descending=True, stable=True)
        head = self.model_.head
        with torch.no_grad():
            head.weight.copy_(head.weight[order])
            head.bias.copy_(head.bias[order])
