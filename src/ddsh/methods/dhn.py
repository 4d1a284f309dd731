"""DHN: deep hashing network."""

import torch
from torch import Tensor
from torch.nn import functional

from ddsh.base import MethodCard
from ddsh.errors import InvalidInput
from ddsh.labels import Labels
from ddsh.methods._deep import DeepHasher, Rows
from ddsh.methods._training import Training
from ddsh.networks.network import Network

_TRAINING = Training(passes=12, learning_rate=0.02, final_rate=2e-4, momentum=0.9, flip=True)


class DHN(DeepHasher):
    """Deep hashing network.

    With z = tanh(u) of the network's outputs u, the inner products of the pairs of a mini-batch explain which are
    similar, p(similar) = sigmoid(z_i.z_j), and a quantisation loss log cosh(abs(z) - 1) draws every z to -1 or 1. The
    inner product is not scaled, neither in the paper nor in the authors' release.

    The loss is the mean cross-entropy of all pairs, an image with itself included, plus `quantisation` times the mean
    over images of the quantisation loss, summed over bits: the authors' scale.

    Parameters
    ----------
    n_bits : int
        Code length.
    network : str or Network
        A name of :data:`ddsh.networks.NETWORKS`, or your own.
    image_size : int, optional
        Side of the images that the network sees; its own if not given.
    n_frozen : int
        First stages of the network that keep their pretrained weights; what they put out is computed once.
    training : Training, optional
        Passes, learning rate and so on; the method's own if not given.
    quantisation : float
        Weight of the quantisation loss, the paper's lambda, which it chooses between 1e-5 and 100 by validation; the
        authors' release has 0.1.
    seed : int
        Of everything random.
    device : str
        ``auto``, ``cpu``, ``cuda``, ``mps``.
    weights : str, optional
        File with the network's pretrained weights, where they are not a package.
    memory : str, optional
        Folder where outputs of frozen stages are kept, for the next run; nothing is kept if not given.

    Attributes
    ----------
    model_ : HashNetwork
        The trained network.
    history_ : list of dict
        Loss of every pass.

    References
    ----------
    Zhu, H., Long, M., Wang, J. and Cao, Y. "Deep Hashing Network for Efficient Similarity Retrieval." AAAI, 2016.
    Differs from the paper in the network, mini-batches of 128 instead of 64, a hash layer that learns as fast as the
    rest instead of ten times faster, a rate that falls geometrically, and no dropout.
    """

    card = MethodCard(
        name="dhn",
        title="Deep hashing network",
        authors="Zhu, Long, Wang, Cao",
        venue="AAAI",
        year=2016,
        supervision="supervised",
        inputs="images",
        deviations=("mini-batches of 128, a rate that falls geometrically, no dropout",),
    )
    needs_whole_batch = True

    def __init__(
        self,
        n_bits: int = 32,
        *,
        network: str | Network = "efficientnet-lite0",
        image_size: int | None = None,
        n_frozen: int = 0,
        training: Training | None = None,
        quantisation: float = 0.1,
        seed: int = 0,
        device: str = "auto",
        weights: str | None = None,
        memory: str | None = None,
    ) -> None:
        self.n_bits = n_bits
        self.network = network
        self.image_size = image_size
        self.n_frozen = n_frozen
        self.training = training
        self.quantisation = quantisation
        self.seed = seed
        self.device = device
        self.weights = weights
        self.memory = memory

    def _schedule(self) -> Training:
        return self.training or _TRAINING

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if not self.quantisation >= 0:
            raise InvalidInput(f"quantisation must be 0 or more; got {self.quantisation}.")

    def _begin_fit(self, labels: Labels) -> None:
        super()._begin_fit(labels)
        self._labels = labels

    def _loss(self, outputs: Tensor, rows: Rows) -> Tensor:
        labels = self._labels.take(rows)
        similar = torch.from_numpy(labels.similar(labels)).to(outputs)
        z = torch.tanh(outputs)
        pairs = functional.binary_cross_entropy_with_logits(z @ z.T, similar)
        return pairs + self.quantisation * torch.log(torch.cosh(z.abs() - 1)).sum(1).mean()
