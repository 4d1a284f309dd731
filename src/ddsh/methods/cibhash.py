"""CIBHash: contrastive hashing with an information bottleneck."""

import torch
from torch import Tensor
from torch.nn import functional

from ddsh.backbones import Backbone
from ddsh.errors import InvalidInput
from ddsh.methods._batch_terms import straight_through
from ddsh.methods._deep import DeepHasher, Rows
from ddsh.methods.base import MethodCard
from ddsh.methods.training import Training

__all__ = ["CIBHash"]


class CIBHash(DeepHasher):
    """Contrastive hashing without labels: two views of an image are similar.

    A mini-batch has two augmented views of each image. Their outputs u are logits of bits, b = sign(u), whose gradient
    is that of 2 sigmoid(u) - 1. The loss is the cross-entropy of finding the other view among all other codes by
    cosine, divided by `temperature`, plus `bottleneck` times the mean Kullback-Leibler divergence between the bits'
    distributions of the two views, which keeps from a code what is not shared by them.

    Parameters
    ----------
    n_bits : int
        Code length.
    temperature : float
        Of the cosines.
    bottleneck : float
        Weight of the divergence, the paper's beta.
    backbone : str or Backbone
        The network to train.
    training : Training, optional
        Training schedule. Views differ by its `flip` and `crop`, and by mirroring only where stages are frozen.
    seed : int
        Random seed.

    References
    ----------
    Qiu, Z., Su, Q., Ou, Z., Yu, J. and Chen, C. "Unsupervised Hashing with Contrastive Information Bottleneck." IJCAI,
    2021. Differs from the paper in the network, in the sign of the output instead of a random bit, and above all in the
    augmentation: the paper's crops of any size, colours, grey images and blur are not available here.
    """

    card = MethodCard(
        name="cibhash",
        title="Contrastive information bottleneck hashing",
        authors="Qiu, Su, Ou, Yu, Chen",
        venue="IJCAI",
        year=2021,
        supervision="unsupervised",
        inputs="images",
        deviations=("views differ by mirroring and small shifts only", "deterministic bits"),
    )
    # Provisional: a third of the best rate for the hash layer alone (benchmarks/learning_rates.py), at most 0.1.
    default_training = Training(epochs=12, learning_rate=0.1, final_lr=1e-3, batch_size=64, momentum=0.9, flip=True)
    needs_whole_batch = True
    n_views = 2
    loss_weights = ("bottleneck",)

    def __init__(
        self,
        n_bits: int = 32,
        *,
        temperature: float = 0.3,
        bottleneck: float = 0.001,
        backbone: str | Backbone = "efficientnet-lite0",
        training: Training | None = None,
        seed: int = 0,
    ) -> None:
        super().__init__(n_bits, backbone=backbone, training=training, seed=seed)
        self.temperature = temperature
        self.bottleneck = bottleneck

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if not self.temperature > 0:
            raise InvalidInput(f"temperature must be above 0; got {self.temperature}.")

    def _loss(self, outputs: Tensor, rows: Rows) -> Tensor:
        half = len(rows) // 2
        codes = straight_through(torch.tanh(outputs / 2))  # 2 sigmoid(u) - 1
        cosines = codes @ codes.T / (self.n_bits * self.temperature)
        itself = torch.eye(len(rows), dtype=torch.bool, device=outputs.device)
        other_view = torch.arange(len(rows), device=outputs.device).roll(half)
        contrast = functional.cross_entropy(cosines.masked_fill(itself, -torch.inf), other_view)
        first, second = outputs[:half], outputs[half:]
        divergence = (_divergence(first, second) + _divergence(second, first)) / 2
        return contrast + self.bottleneck * divergence


def _divergence(first: Tensor, second: Tensor) -> Tensor:
    """Return the mean over images of KL(p || q), where the bits' logits are given, summed over bits."""
    p = torch.sigmoid(first)
    positive = p * (functional.logsigmoid(first) - functional.logsigmoid(second))
    negative = (1 - p) * (functional.logsigmoid(-first) - functional.logsigmoid(-second))
    return (positive + negative).sum(1).mean()
