"""CSQ: central similarity quantisation."""

import torch
from torch import Tensor
from torch.nn import functional

from ddsh.backbones import Backbone
from ddsh.labels import Labels
from ddsh.methods._batch_terms import log_cosh
from ddsh.methods._classes import class_matrix, hash_centres, majority_vote
from ddsh.methods._deep import DeepHasher, Rows
from ddsh.methods.base import MethodCard
from ddsh.methods.training import Training

__all__ = ["CSQ"]


class CSQ(DeepHasher):
    """Central similarity quantisation: every class has a code beforehand.

    The centres of the classes are rows of a Hadamard matrix, which differ in half of their bits, and the centre t of an
    image is the majority of its classes' centres. The network learns the bits of t by cross-entropy, with p = (tanh(u)
    + 1) / 2, and `quantisation` times the mean of log cosh(abs(tanh(u)) - 1) pulls tanh(u) towards -1 or 1.

    Parameters
    ----------
    n_bits : int
        Code length.
    quantisation : float
        Weight of the quantisation loss, the paper's lambda. The authors' release has 0.05 times the mean of
        (abs(tanh(u)) - 1)^2, which is nearly twice log cosh.
    backbone : str or Backbone
        The network to train.
    training : Training, optional
        Training schedule; the default's rate is provisional.
    seed : int
        Random seed, also of the centres.

    References
    ----------
    Yuan, L., Wang, T., Zhang, X., Tay, F. E. H., Jie, Z., Liu, W. and Feng, J. "Central Similarity Quantization for
    Efficient Image and Video Retrieval." CVPR, 2020. Differs from the paper in the network and its schedule, in
    Hadamard matrices of other sides than powers of two, by Paley's construction (12, 24 and 48 bits are some), and
    in negating rows at random, because the first bit of the paper's centres is the same for all classes. The authors'
    release adds 0.2 times the likelihood of pairs of HashNet, which the paper does not have.
    """

    card = MethodCard(
        name="csq",
        title="Central similarity quantisation",
        authors="Yuan, Wang, Zhang, Tay, Jie, Liu, Feng",
        venue="CVPR",
        year=2020,
        supervision="supervised",
        inputs="images",
        deviations=("Hadamard matrices of more sides, with rows negated at random", "a rate that falls geometrically"),
    )
    # Provisional: a third of the best rates for the hash layer alone (benchmarks/learning_rates.py), at most 0.1.
    default_training = Training(epochs=12, learning_rate=0.05, final_lr=5e-4, batch_size=64, momentum=0.9, flip=True)
    loss_weights = ("quantisation",)

    def __init__(
        self,
        n_bits: int = 32,
        *,
        quantisation: float = 0.1,
        backbone: str | Backbone = "efficientnet-lite0",
        training: Training | None = None,
        seed: int = 0,
    ) -> None:
        super().__init__(n_bits, backbone=backbone, training=training, seed=seed)
        self.quantisation = quantisation

    def _begin_fit(self, labels: Labels) -> None:
        super()._begin_fit(labels)
        classes, rng = class_matrix(labels, self.card.name), self._rng(3)
        self._centres = majority_vote(classes, hash_centres(classes.shape[1], self.n_bits, rng), rng)

    def _loss(self, outputs: Tensor, rows: Rows) -> Tensor:
        bits = torch.from_numpy(self._centres[rows] > 0).to(outputs)
        # (tanh(u) + 1) / 2 = sigmoid(2u); the second term is the quantisation loss.
        central = functional.binary_cross_entropy_with_logits(2 * outputs, bits)
        return central + self.quantisation * log_cosh(torch.tanh(outputs).abs() - 1).mean()
