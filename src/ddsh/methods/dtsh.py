"""DTSH: deep supervised hashing with triplet labels."""

from torch import Tensor
from torch.nn import functional

from ddsh.backbones import Backbone
from ddsh.errors import InvalidInput
from ddsh.methods._batch_terms import mean_or_zero, signs, similar_pairs, triplet_gaps
from ddsh.methods._deep import DeepHasher, Rows
from ddsh.methods.base import MethodCard
from ddsh.methods.training import Training

__all__ = ["DTSH"]


class DTSH(DeepHasher):
    """Deep supervised hashing with triplet labels.

    A triplet is a query q, an image p similar to it and one n that is not. With theta_ij = u_i.u_j / 2 of the network's
    outputs, the triplet has the likelihood sigmoid(theta_qp - theta_qn - alpha). The loss is the mean negative
    log-likelihood of all triplets in the mini-batch, plus `quantisation` times the mean over images of ||sign(u) -
    u||^2.

    Parameters
    ----------
    n_bits : int
        Code length c.
    margin : float
        alpha / c; the paper's alpha is c / 2.
    quantisation : float
        Weight of the quantisation loss. The authors' release has 100 for the sum over the triplets of an image, of
        which there are 22,500.
    backbone : str or Backbone
        The network to train.
    training : Training, optional
        Training schedule.
    seed : int
        Random seed.

    References
    ----------
    Wang, X., Shi, Y. and Kitani, K. M. "Deep Supervised Hashing with Triplet Labels." ACCV, 2016. Differs from the
    paper in the network and its schedule, and in all triplets of a mini-batch, which are averaged.
    """

    card = MethodCard(
        name="dtsh",
        title="Deep supervised hashing with triplet labels",
        authors="Wang, Shi, Kitani",
        venue="ACCV",
        year=2016,
        supervision="supervised",
        inputs="images",
        deviations=("all triplets of a mini-batch, averaged", "a rate that falls geometrically"),
    )
    # Chosen with the whole network (family-held-out-cifar10); at 0.003 training fails.
    default_training = Training(epochs=12, learning_rate=0.001, final_lr=1e-5, batch_size=64, momentum=0.9, flip=True)
    needs_whole_batch = True
    loss_weights = ("quantisation",)

    def __init__(
        self,
        n_bits: int = 32,
        *,
        margin: float = 0.5,
        quantisation: float = 0.0044,
        backbone: str | Backbone = "efficientnet-lite0",
        training: Training | None = None,
        seed: int = 0,
    ) -> None:
        super().__init__(n_bits, backbone=backbone, training=training, seed=seed)
        self.margin = margin
        self.quantisation = quantisation

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if not 0 <= self.margin <= 1:
            raise InvalidInput(f"margin must be 0 to 1; got {self.margin}.")

    def _loss(self, outputs: Tensor, rows: Rows) -> Tensor:
        theta = outputs @ outputs.T / 2
        gaps = triplet_gaps(theta, similar_pairs(self._labels, rows, outputs))
        # -log sigmoid(theta_qp - theta_qn - alpha).
        likelihood = mean_or_zero(functional.softplus(self.margin * self.n_bits - gaps))
        return likelihood + self.quantisation * (signs(outputs) - outputs).square().sum(1).mean()
