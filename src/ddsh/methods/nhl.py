"""NHL: nested hash layer, one training for codes of several lengths."""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from ddsh.backbones import Backbone
from ddsh.errors import InvalidInput, UnknownName
from ddsh.labels import Labels
from ddsh.methods._deep import DeepHasher, Rows
from ddsh.methods.base import MethodCard
from ddsh.methods.registry import get_method
from ddsh.methods.training import Training

__all__ = ["NHL"]

BASES = ("dhn", "dpsh", "dsh", "dsrh", "dtsh", "greedyhash", "hashnet")
"""Methods without steps of their own between epochs, and without codes of classes, which would differ by length."""


class NHL(DeepHasher):
    """Nested hash layer: the first bits of a code are good codes themselves.

    The outputs of several lengths are the first ones of one hash layer, and each has the loss of the method `base`. The
    losses are added with weights that keep longer codes from dominating: where the gradient of a longer code points
    against that of a shorter one, its weight falls until the step does not raise the loss of the shorter code. Longer
    codes teach shorter ones: the loss of each length has `distillation` times the mean squared difference of the inner
    products of its codes and those of the next length, row by row scaled to unit length.

    :meth:`BinaryCodes.first` cuts codes to a length; ``NHL(48).fit(...).encode(images).first(12)``.

    Parameters
    ----------
    n_bits : int
        Code length, the longest.
    lengths : sequence of int
        Lengths that are trained beside `n_bits`; longer ones are left out.
    base : {"dhn", "dpsh", "dsh", "dsrh", "dtsh", "greedyhash", "hashnet"}
        Method whose loss is used, with its default parameters.
    distillation : float
        Weight of the distillation from longer to shorter codes; the authors' release has 0.1.
    backbone : str or Backbone
        The network to train.
    training : Training, optional
        Training schedule; that of `base` by default.
    seed : int
        Random seed.

    References
    ----------
    He, L., Zhang, Y., Li, R., Huang, Z., Wu, R. and Chen, E. "Nested Hash Layer: A Plug-and-play Module for
    Multiple-length Hash Code Learning." arXiv 2412.08922, 2024. Differs from the paper in comparing gradients with
    respect to the outputs instead of the weights of the hash layer, which needs no further pass through the network.
    """

    card = MethodCard(
        name="nhl",
        title="Nested hash layer",
        authors="He, Zhang, Li, Huang, Wu, Chen",
        venue="arXiv",
        year=2024,
        supervision="supervised",
        inputs="images",
        deviations=("gradients of outputs are compared instead of those of weights", "a rate that falls geometrically"),
    )
    needs_whole_batch = True
    loss_weights = ("distillation",)

    def __init__(
        self,
        n_bits: int = 48,
        *,
        lengths: Sequence[int] = (12, 24, 32),
        base: str = "hashnet",
        distillation: float = 0.1,
        backbone: str | Backbone = "efficientnet-lite0",
        training: Training | None = None,
        seed: int = 0,
    ) -> None:
        super().__init__(n_bits, backbone=backbone, training=training, seed=seed)
        self.lengths = lengths
        self.base = base
        self.distillation = distillation

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if not all(length >= 1 for length in self.lengths):
            raise InvalidInput(f"lengths must be 1 or more; got {list(self.lengths)}.")
        self._base_class()

    def _base_class(self) -> type[DeepHasher]:
        if self.base not in BASES:
            raise UnknownName("base", self.base, BASES)
        found = get_method(self.base)
        assert issubclass(found, DeepHasher), "all of BASES are deep"
        return found

    def _schedule(self) -> Training:
        return self.training or self._base_class().default_training

    def describe_params(self) -> dict[str, Any]:
        """Return every parameter except the backbone as plain JSON; see :meth:`DeepHasher.describe_params`."""
        return super().describe_params() | {"lengths": list(self.lengths)}

    def _begin_fit(self, labels: Labels) -> None:
        super()._begin_fit(labels)
        lengths = sorted({length for length in self.lengths if length < self.n_bits} | {self.n_bits})
        base = self._base_class()
        self._nested = [base(length, backbone=self.backbone, seed=self.seed) for length in lengths]
        for method in self._nested:
            method._begin_fit(labels)
        self._helper = nn.ModuleList([method._helper for method in self._nested if method._helper is not None])

    def _loss(self, outputs: Tensor, rows: Rows) -> Tensor:
        parts = [outputs[:, : method.n_bits] for method in self._nested]
        for method in self._nested:
            method._progress = self._progress
        losses = [method._loss(part, rows) for method, part in zip(self._nested, parts, strict=True)]
        for place, (short, long) in enumerate(pairwise(parts)):
            difference = _relations(short) - _relations(long).detach()
            losses[place] = losses[place] + self.distillation * difference.square().mean()
        gradients = [torch.autograd.grad(loss, outputs, retain_graph=True)[0] for loss in losses]
        weights = balanced_weights(gradients, [method.n_bits for method in self._nested])
        return torch.stack(losses) @ torch.tensor(weights).to(outputs) / len(losses)

    def _after_batch(self, rows: Rows, outputs: NDArray[Any]) -> None:
        for method in self._nested:
            method._after_batch(rows, outputs[:, : method.n_bits])

    def _state(self) -> dict[str, NDArray[Any]]:
        return {f"{m.n_bits}.{name}": array for m in self._nested for name, array in m._state().items()}

    def _restore(self, state: dict[str, NDArray[Any]]) -> None:
        for method in self._nested:
            prefix = f"{method.n_bits}."
            method._restore({name.removeprefix(prefix): a for name, a in state.items() if name.startswith(prefix)})


def balanced_weights(gradients: Sequence[Tensor], lengths: Sequence[int]) -> list[float]:
    """Return weights of the losses of several lengths, with a sum that is their number.

    Parameters
    ----------
    gradients : sequence of Tensor, shape (n, c)
        Gradients of the losses with respect to all outputs, shortest code first; those of later outputs are zero.
    lengths : sequence of int
        The code lengths.

    Returns
    -------
    list of float
        1 for each, unless the gradient g_l of a longer code has a negative product with g_s of a shorter one, on the
        outputs of the latter, beyond |g_s|^2 divided by the number of lengths but one: then the product is limited to
        that. For a shorter code no longer one may weigh more than the next one.
    """
    count = len(lengths)
    weights = [1.0] * count
    for shorter in range(count - 1):
        block = gradients[shorter][:, : lengths[shorter]]
        allowed = float(block.square().sum()) / (count - 1)
        most = 1.0
        for longer in range(shorter + 1, count):
            product = float((block * gradients[longer][:, : lengths[shorter]]).sum())
            factor = min(most, allowed / -product if -product > allowed else 1.0)
            weights[longer] *= factor
            if longer == shorter + 1:
                most = factor
    return [weight * count / sum(weights) for weight in weights]


def _relations(outputs: Tensor) -> Tensor:
    """Return the inner products of all pairs of a mini-batch, with rows of unit length."""
    return functional.normalize(outputs @ outputs.T)
