"""DDSH: deep discrete supervised hashing, with DDSH0 and DDSH-MAC."""

# ruff: noqa: N803 -- arguments carry the paper's letters

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar, Self

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import clone
from torch import Tensor
from torch.nn import functional

from ddsh.backbones import Backbone
from ddsh.errors import InvalidInput, UnknownName
from ddsh.labels import Labels, MultiLabels, draw_stratified
from ddsh.methods._bqp import Context, Slope, Solver, Terms, code_omega, full_objective
from ddsh.methods._deep import DeepHasher, Rows
from ddsh.methods._label_codes import codes_of_labels
from ddsh.methods._similarity import Dissimilar, Multilabel, Sampling, Start, check_choices, similarity
from ddsh.methods._triplets import draw_triplets, triplet_terms
from ddsh.methods.base import MethodCard, SearchRange
from ddsh.methods.cosdish import COSDISH
from ddsh.methods.losses import L2Loss, Loss, PairLoss, as_loss, describe_loss
from ddsh.methods.training import Training

__all__ = ["DDSH", "DDSH0", "DDSHMAC", "PRESETS", "Preset"]

_SAMPLE = 2000
_FEW = 200
_FEWEST_BATCHES = 60
_CHOSEN = (
    "n_inner",
    "n_omega",
    "solver",
    "context",
    "dissimilar",
    "sampling",
    "start",
    "warm_up",
    "multilabel",
    "ridge",
)


@dataclass(frozen=True)
class Preset:
    """A complete set of parameters of DDSH.

    Parameters
    ----------
    training : Training
        Training schedule of the network.
    n_inner : int
        Epochs with one sample of columns (the paper's T_in); the number of samples T_out is epochs / n_inner.
    n_omega : int
        Number of sampled columns.
    solver : {"clustering", "local", "exact"}
        Solver of one bit of their codes.
    context : {"before", "others"}
        The bits that are fixed while one is solved.
    dissimilar : {"minus-one", "balanced"}
        S of dissimilar pairs: -1, or -r with r = similar / dissimilar pairs, so that both have equal total weight.
    per_gamma : bool
        Divide the gradient by batch x images, as the authors do, instead of taking the mean over pairs and bits.
    sampling : {"random", "stratified"}
        How Omega is drawn: at random, or with the share of each class.
    start : {"random", "cosdish", "labels"}
        Codes before the first epoch.
    warm_up : int
        First epochs, in which the codes stay those of the start.
    multilabel : {"authors", "none", "jaccard", "cosine"}
        S of multi-label images.
    ridge : float
        Train towards the least-squares codes of each image, with this ridge; 0 trains on pairs.
    """

    training: Training
    n_inner: int
    n_omega: int
    solver: Solver
    context: Context
    dissimilar: Dissimilar
    per_gamma: bool
    sampling: Sampling = "random"
    start: Start = "random"
    warm_up: int = 0
    multilabel: Multilabel = "authors"
    ridge: float = 0.0


_PAPER = Preset(
    Training(epochs=150, learning_rate=1e-2, weight_decay=5e-4),
    n_inner=50,
    n_omega=100,
    solver="clustering",
    context="before",
    dissimilar="minus-one",
    per_gamma=True,
)
_PAIRS = Preset(
    Training(epochs=12, learning_rate=0.05, final_lr=5e-4, batch_size=64, head_factor=2.0, momentum=0.9, flip=True),
    n_inner=1,
    n_omega=100,
    solver="clustering",
    context="before",
    dissimilar="minus-one",
    per_gamma=False,
    sampling="stratified",
    start="cosdish",
)
PRESETS: Mapping[str, Preset] = {
    "paper": _PAPER,
    "release": replace(_PAPER, training=replace(_PAPER.training, final_lr=1e-4), n_inner=3, dissimilar="balanced"),
    "tuned": replace(
        _PAIRS,
        training=replace(_PAIRS.training.scaled(0.02), batch_size=32),
        solver="local",
        context="others",
        dissimilar="balanced",
        start="labels",
        warm_up=6,
        ridge=1.0,
    ),
    "pairs": _PAIRS,
    "multilabel": replace(
        _PAIRS,
        training=replace(_PAIRS.training.scaled(0.02), standardise=True),
        n_omega=400,
        solver="local",
        context="others",
        dissimilar="balanced",
        start="labels",
        warm_up=6,
        multilabel="jaccard",
        ridge=0.3,
    ),
    "scratch": replace(
        _PAIRS,
        training=Training(epochs=40, learning_rate=0.5, final_lr=5e-3, momentum=0.9, flip=True),
        sampling="random",
        start="random",
    ),
}
"""Presets of :class:`DDSH` by name."""


def _tuned(**changes: Any) -> Mapping[str, Preset]:  # noqa: ANN401 -- any field of Training
    """Return the presets of a variant: ``tuned`` is ``pairs`` with a changed training schedule."""
    return {**PRESETS, "tuned": replace(_PAIRS, training=replace(_PAIRS.training, **changes))}


class DDSH(DeepHasher):
    """Deep discrete supervised hashing.

    Each epoch has two steps. The codes of a sampled set Omega are learned bit by bit, as binary quadratic programmes,
    from the similarities and the codes of all other images Gamma. Then the network is trained on Gamma so that its
    relaxed codes tanh(F(x)) fit the codes of Omega; the codes of Gamma are the signs of its outputs.

    Parameters
    ----------
    n_bits : int
        Code length.
    preset : {"tuned", "multilabel", "pairs", "scratch", "release", "paper"}
        Source of the parameters below that are None: ``tuned`` for pretrained networks, ``multilabel`` for those and
        images with several labels, ``pairs`` as ``tuned`` but trained on pairs, ``scratch`` for networks without
        pretrained weights; ``release`` and ``paper`` are the authors'.
    n_inner : int, optional
        Epochs with one Omega.
    n_omega : int, optional
        Size of Omega.
    solver : {"clustering", "local", "exact"}, optional
        Solver of one bit of Omega's codes.
    context : {"before", "others"}, optional
        The bits that are fixed while one is solved: those before it, as in the paper, or all others.
    dissimilar : {"minus-one", "balanced"}, optional
        S of dissimilar pairs: -1, or -r so that similar and dissimilar pairs have equal total weight.
    sampling : {"random", "stratified"}, optional
        How Omega is drawn: at random, or with the share of each class.
    start : {"random", "cosdish", "labels"}, optional
        Codes before the first epoch: random, as in the authors' release, those of COSDISH, or those that the discrete
        step learns from the labels alone, one for each set of labels.
    warm_up : int, optional
        Number of first epochs in which the network learns the codes of the start, before the discrete step and its own
        outputs change them. A network that has much to learn gives all images the same code at first, which would
        replace what the codes know about the classes.
    multilabel : {"authors", "none", "jaccard", "cosine"}, optional
        S of multi-label images: ``authors`` sets S = 0 for dissimilar pairs that both have several labels, ``none``
        treats them as others, ``jaccard`` and ``cosine`` set S of similar pairs to the share of common labels.
    ridge : float, optional
        Train towards the real-valued codes that minimise the L2 loss of each image against Omega, instead of following
        the gradient of its pairs. The optimum is the same up to the ridge, but the pairs' gradient moves each direction
        of the code by the variance of Omega's codes along it, so that bits which agree on most images learn fast and
        all others slowly. 0 trains on pairs, as in the paper.
    loss : {"l2", "logistic", "hinge", "triplet"}, dict, PairLoss or TripletLoss
        The loss on pairs, of which the paper's is L2, or on triplets, which the same discrete step solves.
    backbone : str or Backbone
        The network to train.
    training : Training, optional
        Training schedule.
    seed : int
        Random seed.

    References
    ----------
    Jiang, Q.-Y., Cui, X. and Li, W.-J. "Deep Discrete Supervised Hashing." IEEE Transactions on Image Processing, 2018.
    The default preset ``tuned`` differs from the paper in a new Omega every epoch, stratified by class, S = -r for
    dissimilar pairs, 1-flip descent with all other bits fixed, least-squares codes as targets, a warm-up with codes
    learned from the labels alone, SGD with momentum and a decaying rate, mirrored images, fewer epochs, and the
    network. On CIFAR-10 its MAP is .850/.870/.870/.870 at 12/24/32/48 bits (EfficientNet-Lite 0 at 112 pixels, its
    first six stages frozen, 9 epochs, mean of three seeds, ties averaged; the paper has .769/.829/.835/.819).
    ``paper`` and ``release`` are the paper's text and the authors' released experiment; in both the gradient has the
    factor c on S that the paper's Eq. (6) lacks by misprint.
    """

    card = MethodCard(
        name="ddsh",
        title="Deep discrete supervised hashing",
        authors="Jiang, Cui, Li",
        venue="IEEE TIP",
        year=2018,
        supervision="supervised",
        inputs="images",
        deviations=("the default preset is tuned on validation; presets paper and release are the authors'",),
    )
    presets: ClassVar[Mapping[str, Preset]] = PRESETS

    def __init__(
        self,
        n_bits: int = 32,
        *,
        preset: str = "tuned",
        n_inner: int | None = None,
        n_omega: int | None = None,
        solver: Solver | None = None,
        context: Context | None = None,
        dissimilar: Dissimilar | None = None,
        sampling: Sampling | None = None,
        start: Start | None = None,
        warm_up: int | None = None,
        multilabel: Multilabel | None = None,
        ridge: float | None = None,
        loss: str | Mapping[str, Any] | Loss = "l2",
        backbone: str | Backbone = "efficientnet-lite0",
        training: Training | None = None,
        seed: int = 0,
    ) -> None:
        super().__init__(n_bits, backbone=backbone, training=training, seed=seed)
        self.preset = preset
        self.n_inner = n_inner
        self.n_omega = n_omega
        self.solver = solver
        self.context = context
        self.dissimilar = dissimilar
        self.sampling = sampling
        self.start = start
        self.warm_up = warm_up
        self.multilabel = multilabel
        self.ridge = ridge
        self.loss = loss

    def settings(self) -> Preset:
        """Return the preset, overridden by the parameters that are not None."""
        if self.preset not in self.presets:
            raise UnknownName("preset", self.preset, self.presets)
        given = {name: value for name in ("training", *_CHOSEN) if (value := getattr(self, name)) is not None}
        if not isinstance(as_loss(self.loss), L2Loss):
            given = {"ridge": 0.0} | given  # the least squares of a preset are those of the L2 loss
        return Preset(**(vars(self.presets[self.preset]) | given))

    def _schedule(self) -> Training:
        return self.settings().training

    def _fewest_batches(self) -> int:
        return _FEWEST_BATCHES if self.settings().ridge else super()._fewest_batches()

    def describe_params(self) -> dict[str, Any]:
        """Return every parameter except the backbone as plain JSON, with the preset resolved."""
        settings = {name: getattr(self.settings(), name) for name in _CHOSEN}
        return super().describe_params() | settings | {"loss": describe_loss(self.loss)}

    def _check_parameters(self) -> None:
        super()._check_parameters()
        settings = self.settings()
        as_loss(self.loss)
        names = ("solver", "context", "dissimilar", "sampling", "start", "multilabel")
        check_choices(**{name: getattr(settings, name) for name in names})
        if settings.n_inner < 1 or settings.n_omega < 1:
            raise InvalidInput(f"n_inner and n_omega must be at least 1; got {settings.n_inner}, {settings.n_omega}.")
        if settings.warm_up < 0:
            raise InvalidInput(f"warm_up must be 0 or more; got {settings.warm_up}.")
        if not settings.ridge >= 0:
            raise InvalidInput(f"ridge must be 0 or more; got {settings.ridge}.")
        if settings.ridge and not isinstance(as_loss(self.loss), L2Loss):
            raise InvalidInput("A ridge solves the L2 loss; set ridge=0 to use another loss.")

    def search_space(self, labels: Labels) -> dict[str, SearchRange]:
        """Return the parameters that ``ddsh tune`` varies: the size of Omega and the labels' similarity, too."""
        of_labels: dict[str, SearchRange] = {"multilabel": ("cosine",)} if isinstance(labels, MultiLabels) else {}
        return of_labels | super().search_space(labels) | {"n_omega": 2.0}

    def adapted(self, labels: Labels, given: Collection[str] | None = None) -> Self:
        """Return a copy for these labels; see :meth:`Hasher.adapted`.

        The preset ``tuned`` becomes ``multilabel`` if any image has several labels. If Omega would be more than half of
        the images, it is half of them; with fewer than 200 images it is stratified, too, and other presets start from
        the codes of COSDISH and use the solver ``local``. With a ridge, mini-batches are halved down to 16 images while
        there are fewer than 60 of them, and the learning rate falls in proportion (``choose-few-cifar10`` has what
        that changes).
        """
        has_several = isinstance(labels, MultiLabels) and bool((np.diff(labels.matrix.indptr) > 1).any())
        preset = "multilabel" if has_several else "tuned"
        if preset != self.preset == "tuned" and "preset" not in (given or ()):
            other: Self = clone(self).set_params(preset=preset)
            if self.training is not None and given is not None:
                chosen = {name: value for name, value in vars(self.training).items() if name in given}
                schedule = self.presets[preset].training
                if "learning_rate" in chosen:
                    schedule = schedule.scaled(chosen["learning_rate"])
                other.set_params(training=replace(schedule, **chosen))
            return other.adapted(labels, given)
        suited = super().adapted(labels, given)
        n_items = len(labels)
        if n_items < 2 or 2 * self.settings().n_omega <= n_items:
            return suited
        wanted: dict[str, Any] = {"n_omega": n_items // 2}
        if n_items < _FEW:
            wanted |= {"sampling": "stratified"}
            if self.settings().start != "labels":
                wanted |= {"solver": "local", "start": "cosdish"}
        kept = [name for name in wanted if getattr(self, name) is not None] if given is None else given
        changes = {name: value for name, value in wanted.items() if name not in kept}
        copied: Self = clone(suited)
        return copied.set_params(**changes)  # type: ignore[no-any-return]

    def _begin_fit(self, labels: Labels) -> None:
        super()._begin_fit(labels)
        self._settings = self.settings()
        self._code_loss = as_loss(self.loss)
        n_omega = self._settings.n_omega
        if n_omega >= len(labels):
            raise InvalidInput(
                f"n_omega is {n_omega} but there are only {len(labels)} images; it must be smaller: set it, or use"
                " adapted(labels)."
            )
        some = labels.take(np.argsort(self._rng(5).random(len(labels)))[:_SAMPLE])
        if some.similar(some).all():
            raise InvalidInput("All images are similar to each other (one class only?): there is nothing to learn.")
        if self._settings.start == "cosdish":
            self._B = COSDISH(self.n_bits, seed=self.seed).learn_codes(labels)
        elif self._settings.start == "labels":
            self._B = codes_of_labels(labels, self.n_bits, self._similarity, self._rng(8))
        else:  # as in the authors' release
            self._B = self._rng(0).choice(np.array([-1, 1], np.int8), (len(labels), self.n_bits))
        self._omega: Rows = np.empty(0, np.int64)

    def _draw_omega(self, rng: np.random.Generator) -> tuple[Rows, NDArray[np.float64], NDArray[np.float64]]:
        """Draw a new Omega; return Gamma and the similarities of Omega and Gamma to Omega."""
        n, n_omega = len(self._labels), self._settings.n_omega
        if self._settings.sampling == "stratified":
            self._omega = np.flatnonzero(draw_stratified(self._labels, n_omega, rng))
        else:
            self._omega = np.sort(np.argsort(rng.random(n), kind="stable")[:n_omega])
        return self._pairs_of_omega()

    def _pairs_of_omega(self) -> tuple[Rows, NDArray[np.float64], NDArray[np.float64]]:
        """Return Gamma and the similarities of Omega and Gamma to Omega."""
        gamma = np.setdiff1d(np.arange(len(self._labels)), self._omega)
        rows = np.concatenate([self._omega, gamma])
        S = self._similarity(self._labels.take(rows), self._labels.take(self._omega))
        return gamma, S[: len(self._omega)], S[len(self._omega) :]

    def _code_omega(
        self,
        gamma: Rows,
        S_omega: NDArray[np.float64],
        S_gamma: NDArray[np.float64],
        rng: np.random.Generator,
        linear: NDArray[np.float64] | None = None,
    ) -> NDArray[np.int8]:
        """Return new codes of Omega, bit by bit."""
        loss, B_gamma = self._code_loss, self._B[gamma]
        slope: Slope | None = None
        terms: Terms | None = None
        if not isinstance(loss, PairLoss):
            triplets = draw_triplets(np.vstack([S_omega, S_gamma]) > 0, loss.n_triplets, rng)
            terms = partial(triplet_terms, B_gamma, triplets, partial(loss.values, n_bits=self.n_bits))
        elif not isinstance(loss, L2Loss):
            slope = partial(loss.slope, n_bits=self.n_bits)
        return code_omega(
            self._B[self._omega],
            B_gamma,
            S_omega,
            S_gamma,
            solver=self._settings.solver,
            context=self._settings.context,
            slope=slope,
            terms=terms,
            linear=linear,
            rng=rng,
        )

    def _begin_epoch(self, number: int) -> tuple[Rows, float | None]:
        settings, self._epoch = self._settings, number
        n = len(self._labels)
        if number % settings.n_inner == 0:
            gamma, S_omega, S_gamma = self._draw_omega(self._rng(3, number))
        else:
            gamma, S_omega, S_gamma = self._pairs_of_omega()
        B_omega, B_gamma = self._B[self._omega], self._B[gamma]
        if number >= settings.warm_up:
            B_omega = self._code_omega(gamma, S_omega, S_gamma, self._rng(4, number), self._linear())
        self._B[self._omega] = B_omega
        self._prepare_targets(gamma, B_omega, S_gamma)
        return gamma, full_objective(B_omega, B_gamma, S_omega, S_gamma) / n

    def _linear(self) -> NDArray[np.float64] | None:
        """Return an additional linear term for each bit of Omega's codes, or None."""
        return None

    def _similarity(self, rows: Labels, columns: Labels) -> NDArray[np.float64]:
        """Return S between two sets of images: 1 for similar pairs, -1 or -r for others."""
        settings = self._settings
        return similarity(rows, columns, dissimilar=settings.dissimilar, multilabel=settings.multilabel)

    def _prepare_targets(self, gamma: Rows, B_omega: NDArray[np.int8], S_gamma: NDArray[np.float64]) -> None:
        """Store the targets of this epoch's loss, on the device."""
        device = self.model_.head.weight.device
        self._gamma = gamma
        self._targets = torch.from_numpy(B_omega.astype(np.float32)).to(device)
        self._S_gamma = S_gamma.astype(np.float32)
        if self._settings.ridge:
            # The h that minimises sum over Omega of (c S_ij - b_i.h)^2 + ridge |Omega| ||h||^2 for every j in Gamma.
            B, identity = B_omega.astype(np.float64), np.eye(self.n_bits)
            gram = B.T @ B + self._settings.ridge * len(B) * identity
            codes = np.linalg.solve(gram, self.n_bits * (B.T @ self._S_gamma.T.astype(np.float64)))
            self._least_squares = torch.from_numpy(codes.T.astype(np.float32)).to(device)

    def _loss(self, outputs: Tensor, rows: Rows) -> Tensor:
        places = np.searchsorted(self._gamma, rows)
        relaxed = torch.tanh(outputs)  # Eq. (5): the sign is relaxed to tanh
        if self._settings.ridge:
            return functional.mse_loss(relaxed, self._least_squares[torch.from_numpy(places)])
        similarity = torch.from_numpy(self._S_gamma[places]).to(outputs.device)
        mean = self._code_loss.mean(relaxed @ self._targets.T, similarity, self.n_bits)
        if self._settings.per_gamma:
            return mean * (self.n_bits**2 * len(self._omega) / len(self._gamma))
        return mean

    def _after_batch(self, rows: Rows, outputs: NDArray[np.float32]) -> None:
        if self._epoch >= self._settings.warm_up:
            self._B[rows] = np.where(outputs > 0, 1, -1)

    def _state(self) -> dict[str, NDArray[Any]]:
        epoch = np.array([self._epoch])
        return {"B": self._B, "omega": self._omega, "gamma": self._gamma, "S_gamma": self._S_gamma, "epoch": epoch}

    def _restore(self, state: dict[str, NDArray[Any]]) -> None:
        self._B, self._omega, self._epoch = state["B"].copy(), state["omega"].copy(), int(state["epoch"][0])
        self._prepare_targets(state["gamma"], self._B[self._omega], state["S_gamma"])


class DDSH0(DDSH):
    """DDSH with frozen features: only the hash layer learns (the paper's variant DDSH0).

    The preset ``tuned`` is ``pairs`` with a learning rate of 0.5 to 5e-3, which scored better on validation; everything
    else is as in DDSH. `n_frozen` of the backbone has no effect.
    """

    card = replace(DDSH.card, name="ddsh0", title="DDSH with frozen features")
    presets = _tuned(learning_rate=0.5, final_lr=5e-3)

    def _n_frozen(self) -> int:
        return len(self.model_.backbone.stages())


class DDSHMAC(DDSH):
    """DDSH with auxiliary coordinates (the paper's variant DDSH-MAC).

    Minimises L_COSDISH(B) + lambda ||B - tanh F(X)||^2: the codes of all images are learned from the similarities and
    pulled towards the outputs; the network is trained to predict the codes, so `ridge` has no effect. The preset
    ``tuned`` is ``pairs`` with mini-batches of 128 images, which scored better on validation; everything else is as in
    DDSH.

    Parameters
    ----------
    mac_weight : float
        Lambda, which the paper does not give, in units of the size of Omega times the code length.
    """

    card = replace(DDSH.card, name="ddsh-mac", title="DDSH with auxiliary coordinates")
    presets = _tuned(batch_size=128)

    def __init__(
        self,
        n_bits: int = 32,
        *,
        mac_weight: float = 0.1,
        preset: str = "tuned",
        n_inner: int | None = None,
        n_omega: int | None = None,
        solver: Solver | None = None,
        context: Context | None = None,
        dissimilar: Dissimilar | None = None,
        sampling: Sampling | None = None,
        start: Start | None = None,
        warm_up: int | None = None,
        multilabel: Multilabel | None = None,
        ridge: float | None = None,
        loss: str | Mapping[str, Any] | Loss = "l2",
        backbone: str | Backbone = "efficientnet-lite0",
        training: Training | None = None,
        seed: int = 0,
    ) -> None:
        super().__init__(
            n_bits,
            preset=preset,
            n_inner=n_inner,
            n_omega=n_omega,
            solver=solver,
            context=context,
            dissimilar=dissimilar,
            sampling=sampling,
            start=start,
            warm_up=warm_up,
            multilabel=multilabel,
            ridge=ridge,
            loss=loss,
            backbone=backbone,
            training=training,
            seed=seed,
        )
        self.mac_weight = mac_weight

    def search_space(self, labels: Labels) -> dict[str, SearchRange]:
        """Return the parameters that ``ddsh tune`` varies: the weight of the auxiliary coordinates, too."""
        return super().search_space(labels) | {"mac_weight": 10.0}

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if not self.mac_weight >= 0:
            raise InvalidInput(f"mac_weight must be 0 or more; got {self.mac_weight}.")

    def _begin_fit(self, labels: Labels) -> None:
        super()._begin_fit(labels)
        self._A = np.zeros(self._B.shape, np.float32)

    def _begin_epoch(self, number: int) -> tuple[Rows, float | None]:
        gamma, objective = super()._begin_epoch(number)
        pull = self.mac_weight * len(self._omega) * self.n_bits
        if number < self._settings.warm_up:
            return np.arange(len(self._B)), objective
        # COSDISH: the codes of Gamma are the signs of S B^Omega, here pulled towards the outputs; 0 keeps the bit.
        wanted = self.n_bits * (self._S_gamma @ self._B[self._omega]) + pull * self._A[gamma]
        self._B[gamma] = np.where(wanted > 0, 1, np.where(wanted < 0, -1, self._B[gamma]))
        return np.arange(len(self._B)), objective

    def _linear(self) -> NDArray[np.float64]:
        pull = self.mac_weight * len(self._omega) * self.n_bits
        return -2 * pull * self._A[self._omega].astype(np.float64)

    def _loss(self, outputs: Tensor, rows: Rows) -> Tensor:
        wanted = torch.from_numpy(self._B[rows].astype(np.float32)).to(outputs.device)
        return functional.mse_loss(torch.tanh(outputs), wanted)

    def _after_batch(self, rows: Rows, outputs: NDArray[np.float32]) -> None:
        self._A[rows] = np.tanh(outputs)

    def _state(self) -> dict[str, NDArray[Any]]:
        return super()._state() | {"A": self._A}

    def _restore(self, state: dict[str, NDArray[Any]]) -> None:
        super()._restore(state)
        self._A = state["A"].copy()
