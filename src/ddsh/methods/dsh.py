"""DSH: deep supervised hashing."""

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


class DSH(DeepHasher):
    """Deep supervised hashing.

    The pairs of a mini-batch are drawn together where they are similar and driven apart to a squared distance of 2c
    where they are not, c the code length; a regulariser draws every output to -1 or 1. The loss is the mean over pairs
    of half of that and `quantisation` times the regulariser of both images.

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
        Weight of the regulariser, the paper's alpha.
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
    Liu, H., Wang, R., Shan, S. and Chen, X. "Deep Supervised Hashing for Fast Image Retrieval." CVPR, 2016.
    Differs from the paper in the network, mini-batches of 128 instead of 200, a rate that falls geometrically, a weight
    decay of 5e-4 instead of 4e-3, and fewer passes.
    """

    card = MethodCard(
        name="dsh",
        title="Deep supervised hashing",
        authors="Liu, Wang, Shan, Chen",
        venue="CVPR",
        year=2016,
        supervision="supervised",
        inputs="images",
        deviations=("mini-batches of 128, a rate that falls geometrically, less weight decay, fewer passes",),
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
        quantisation: float = 0.01,
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
        similar = torch.from_numpy(labels.similar(labels)).to(outputs.device)
        norms = outputs.square().sum(1)
        squared = norms[:, None] + norms - 2 * outputs @ outputs.T
        pairs = torch.where(similar, squared, functional.relu(2 * self.n_bits - squared)) / 2
        n_pairs = max(len(rows) * (len(rows) - 1) // 2, 1)  # the last mini-batch may hold one image: no pair
        regulariser = (outputs.abs() - 1).abs().sum(1).mean()
        return pairs.triu(1).sum() / n_pairs + 2 * self.quantisation * regulariser
