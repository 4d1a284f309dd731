"""CIBHash: contrastive hashing with an information bottleneck."""

import torch
from torch import Tensor
from torch.nn import functional

from ddsh.backbones import Backbone
from ddsh.methods._batch_terms import straight_through
from ddsh.methods._deep import DeepHasher, Rows
from ddsh.methods.base import MethodCard
from ddsh.methods.training import Training

__all__ = ["CIBHash"]


class CIBHash(DeepHasher):
    """Contrastive hashing without labels: two views of an image are similar.

    A mini-batch has two augmented views of each image. Their outputs u are logits of bits, b = sign(u), whose gradient
    is that of sigmoid(u). The loss is the cross-entropy of finding the other view among all other codes by cosine,
    divided by `temperature`, plus `bottleneck` times the mean Kullback-Leibler divergence between the bits'
    distributions of the two views, which keeps from a code what is not shared by them. As in the authors' release, the
    second distribution of a divergence is not trained.

    Parameters
    ----------
    n_bits : int
        Code length.
    temperature : float
        Of the cosines; the authors' release has 0.3.
    bottleneck : float
        Weight of the divergence, the paper's beta; the authors' release has 0.001.
    backbone : str or Backbone
        The network to train.
    training : Training, optional
        Training schedule. Views differ by its `flip` and `crop`, and by mirroring only where stages are frozen.
    seed : int
        Random seed.

    References
    ----------
    Qiu, Z., Su, Q., Ou, Z., Yu, J. and Chen, C. "Unsupervised Hashing with Contrastive Information Bottleneck." IJCAI,
    2021. Differs from the paper in the network, which has no hidden layer of 1,024 before the hash layer and whose
    stages are trained unless they are frozen, and above all in the augmentation: the paper's crops of any size,
    colours, grey images and blur are not available here.
    """

    card = MethodCard(
        name="cibhash",
        title="Contrastive information bottleneck hashing",
        authors="Qiu, Su, Ou, Yu, Chen",
        venue="IJCAI",
        year=2021,
        supervision="unsupervised",
        inputs="images",
        deviations=("views differ by mirroring and small shifts only", "no hidden layer; all stages are trained"),
    )
    # Provisional: a third of the best rates for the hash layer alone (benchmarks/learning_rates.py), at most 0.1.
    default_training = Training(epochs=12, learning_rate=0.005, final_lr=5e-5, batch_size=64, momentum=0.9, flip=True)
    needs_whole_batch = True
    n_views = 2
    loss_weights = ("bottleneck",)
    above_zero = ("temperature",)

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

    def _loss(self, outputs: Tensor, rows: Rows) -> Tensor:
        half = len(rows) // 2
        codes = straight_through(torch.sigmoid(outputs) - 0.5)
        cosines = codes @ codes.T / (self.n_bits * self.temperature)
        itself = torch.eye(len(rows), dtype=torch.bool, device=outputs.device)
        other_view = torch.arange(len(rows), device=outputs.device).roll(half)
        contrast = functional.cross_entropy(cosines.masked_fill(itself, -torch.inf), other_view)
        first, second = outputs[:half], outputs[half:]
        divergence = (_divergence(first, second) + _divergence(second, first)) / 2
        return contrast + self.bottleneck * divergence


def _divergence(first: Tensor, second: Tensor) -> Tensor:
    """Return the mean over images of KL(p || q), where the bits' logits are given, summed over bits; q is fixed."""
    p, second = torch.sigmoid(first), second.detach()
    positive = p * (functional.logsigmoid(first) - functional.logsigmoid(second))
    negative = (1 - p) * (functional.logsigmoid(-first) - functional.logsigmoid(-second))
    return (positive + negative).sum(1).mean()
