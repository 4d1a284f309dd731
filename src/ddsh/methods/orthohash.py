"""OrthoHash: one cosine loss with orthogonal codes of classes."""

import math

import torch
from torch import Tensor, nn
from torch.nn import functional

from ddsh.backbones import Backbone
from ddsh.errors import InvalidInput
from ddsh.labels import Labels
from ddsh.methods._classes import class_matrix, hash_centres
from ddsh.methods._deep import DeepHasher, Rows
from ddsh.methods.base import MethodCard
from ddsh.methods.training import Training

__all__ = ["OrthoHash"]


class OrthoHash(DeepHasher):
    """OrthoHash: cross-entropy of cosines with the codes of the classes.

    Each class has a code o of -1 and +1 beforehand, nearly orthogonal to the others. The outputs, normalised by their
    mean and variance in the mini-batch so that bits are balanced, are compared with them by cosine, and the only loss
    is the cross-entropy of

    softmax(scale * (cos(u, o_k) - margin * y_k)),

    where y_k = 1 for the classes of the image. An image of several labels has the same probability for each of them.
    Since the cosine with a code of -1 and +1 is largest for outputs of equal magnitude, the loss also quantises. After
    training the hash layer absorbs the normalisation.

    Parameters
    ----------
    n_bits : int
        Code length.
    scale : float
        Factor on the cosines; the authors' release has 8.
    margin : float
        What the cosines with an image's own classes are lowered by, as in CosFace; the authors' release has 0.2, and
        advises 0.3 for CIFAR-10.
    backbone : str or Backbone
        The network to train.
    training : Training, optional
        Training schedule; the default's rate is provisional.
    seed : int
        Random seed, also of the codes of the classes.

    References
    ----------
    Hoe, J. T., Ng, K. W., Zhang, T., Chan, C. S., Song, Y.-Z. and Xiang, T. "One Loss for All: Deep Hashing with a
    Single Cosine Similarity based Learning Objective." NeurIPS, 2021. Differs from the paper in the network and its
    schedule, and in codes of classes that are exactly orthogonal where a Hadamard matrix is known.
    """

    card = MethodCard(
        name="orthohash",
        title="OrthoHash: one loss for all",
        authors="Hoe, Ng, Zhang, Chan, Song, Xiang",
        venue="NeurIPS",
        year=2021,
        supervision="supervised",
        inputs="images",
        deviations=("codes of classes from a Hadamard matrix where there is one", "a rate that falls geometrically"),
    )
    # Provisional: a third of the best rates for the hash layer alone (benchmarks/learning_rates.py), at most 0.1.
    default_training = Training(epochs=12, learning_rate=0.003, final_lr=3e-5, batch_size=64, momentum=0.9, flip=True)
    needs_whole_batch = True
    above_zero = ("scale",)

    def __init__(
        self,
        n_bits: int = 32,
        *,
        scale: float = 8.0,
        margin: float = 0.2,
        backbone: str | Backbone = "efficientnet-lite0",
        training: Training | None = None,
        seed: int = 0,
    ) -> None:
        super().__init__(n_bits, backbone=backbone, training=training, seed=seed)
        self.scale = scale
        self.margin = margin

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if not 0 <= self.margin < 2:
            raise InvalidInput(f"margin must be 0 or more, and below 2; got {self.margin}.")

    def _begin_fit(self, labels: Labels) -> None:
        super()._begin_fit(labels)
        self._classes = class_matrix(labels, "orthohash").tocsr()
        self._codes = torch.from_numpy(hash_centres(self._classes.shape[1], self.n_bits, self._rng(3)))
        self._helper = self._norm = nn.BatchNorm1d(self.n_bits, affine=False)

    def _loss(self, outputs: Tensor, rows: Rows) -> Tensor:
        self._norm.train(len(rows) > 1)  # one image alone has no variance
        classes = torch.from_numpy(self._classes[rows].toarray()).to(outputs)
        directions = functional.normalize(self._norm(outputs))
        cosines = directions @ self._codes.to(outputs).T / math.sqrt(self.n_bits)
        shares = classes / classes.sum(1, keepdim=True).clamp_min(1)
        return functional.cross_entropy(self.scale * (cosines - self.margin * classes), shares)

    def _end_fit(self) -> None:
        mean, variance = self._norm.running_mean, self._norm.running_var
        assert mean is not None, "the layer tracks its statistics"
        assert variance is not None, "and its variance"
        spread = (variance + self._norm.eps).sqrt()
        head = self.model_.head
        with torch.no_grad():
            head.weight.div_(spread[:, None])
            head.bias.sub_(mean).div_(spread)
