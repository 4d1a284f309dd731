"""Semantic hashing: the code layer of a deep autoencoder."""

from typing import TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.special import expit
from torch import nn

from ddsh.errors import InvalidInput
from ddsh.labels import Labels
from ddsh.methods.base import Hasher, MethodCard, Outputs

__all__ = ["SemanticHashing"]

_Floats: TypeAlias = NDArray[np.float64]
_Layer: TypeAlias = tuple[_Floats, _Floats, _Floats]


class SemanticHashing(Hasher):
    """Semantic hashing: the code layer of a deep autoencoder.

    Two restricted Boltzmann machines, one on the features and one on the hidden units of the first, are unrolled into
    an autoencoder, which then learns to reconstruct the features. Noise at the input of the code layer, always the same
    for an item, drives its units towards 0 and 1. The bits are the units above one half.

    Parameters
    ----------
    n_bits : int
        Code length; any.
    n_hidden : int
        Units of the layer between features and codes.
    noise : float
        Standard deviation of the noise at the input of the code layer.
    pretraining_epochs : int
        Epochs of each restricted Boltzmann machine.
    epochs : int
        Epochs of the autoencoder.
    learning_rate : float
        Learning rate of the autoencoder.
    batch_size : int
        Items per mini-batch.
    seed : int
        Random seed.

    Attributes
    ----------
    mean_, scale_ : ndarray, shape (d,)
        Mean and standard deviation of the training features; the scale of a constant feature is 1.
    hidden_weights_, hidden_offset_ : ndarray, shape (d, n_hidden) and (n_hidden,)
        The hidden layer.
    code_weights_, code_offset_ : ndarray, shape (n_hidden, n_bits) and (n_bits,)
        The code layer.
    losses_ : ndarray, shape (epochs,)
        Mean squared error of the reconstruction in each epoch, with noise.

    References
    ----------
    Salakhutdinov, R. and Hinton, G. "Semantic Hashing." International Journal of Approximate Reasoning, 2009.
    Hinton, G. and Salakhutdinov, R. "Reducing the Dimensionality of Data with Neural Networks." Science, 2006: Gaussian
    visible units. Differs from the paper in real features, with Gaussian visible units and the squared error, instead
    of word counts; in one hidden layer instead of two; in Adam instead of conjugate gradients; and in a threshold of
    one half. The DDSH paper counts it among supervised methods, but it uses no labels.
    """

    card = MethodCard(
        name="semantic-hashing",
        title="Semantic hashing",
        authors="Salakhutdinov, Hinton",
        venue="IJAR",
        year=2009,
        supervision="unsupervised",
        inputs="features",
        deviations=("Gaussian units for features instead of word counts", "one hidden layer", "Adam"),
    )
    above_zero = ("learning_rate",)

    def __init__(
        self,
        n_bits: int = 32,
        *,
        n_hidden: int = 512,
        noise: float = 4.0,
        pretraining_epochs: int = 10,
        epochs: int = 20,
        learning_rate: float = 1e-3,
        batch_size: int = 100,
        seed: int = 0,
    ) -> None:
        self.n_bits = n_bits
        self.n_hidden = n_hidden
        self.noise = noise
        self.pretraining_epochs = pretraining_epochs
        self.epochs = epochs
        self.learning_rate = learning_rate
        self.batch_size = batch_size
        self.seed = seed

    def _check_parameters(self) -> None:
        super()._check_parameters()
        self._check_at_least_one("n_hidden", "pretraining_epochs", "epochs", "batch_size")
        if not self.noise >= 0:
            raise InvalidInput(f"noise must be 0 or more; got {self.noise}.")

    def _fit(self, features: _Floats, labels: Labels | None) -> None:
        rng = np.random.Generator(np.random.PCG64(self.seed))
        self.mean_, spread = features.mean(axis=0), features.std(axis=0)
        self.scale_ = np.where(spread > 0, spread, 1.0)
        visible = (features - self.mean_) / self.scale_
        rounds = self.pretraining_epochs, self.batch_size
        first = train_rbm(visible, self.n_hidden, *rounds, rng, is_gaussian=True)
        second = train_rbm(expit(visible @ first[0] + first[2]), self.n_bits, *rounds, rng, is_gaussian=False)
        first, second = self._fine_tune(visible, first, second, rng)
        self.hidden_weights_, _, self.hidden_offset_ = first
        self.code_weights_, _, self.code_offset_ = second

    def _fine_tune(
        self, visible: _Floats, first: _Layer, second: _Layer, rng: np.random.Generator
    ) -> tuple[_Layer, _Layer]:
        """Return the two layers after training the unrolled autoencoder; set `losses_`."""
        data = torch.from_numpy(visible)
        noise = torch.from_numpy(self.noise * rng.standard_normal((len(visible), self.n_bits)))
        encode = [nn.Parameter(torch.from_numpy(array.copy())) for array in (first[0], first[2], second[0], second[2])]
        # The decoder starts as the encoder transposed, and goes its own way from there.
        decoder = (second[0].T.copy(), second[1], first[0].T.copy(), first[1])
        decode = [nn.Parameter(torch.from_numpy(array)) for array in decoder]
        optimizer = torch.optim.Adam([*encode, *decode], self.learning_rate)
        losses = []
        for _ in range(self.epochs):
            total = 0.0
            for rows in _batches(len(data), self.batch_size, rng):
                hidden = torch.sigmoid(data[rows] @ encode[0] + encode[1])
                codes = torch.sigmoid(hidden @ encode[2] + encode[3] + noise[rows])
                rebuilt = torch.sigmoid(codes @ decode[0] + decode[1]) @ decode[2] + decode[3]
                loss = (rebuilt - data[rows]).square().mean()
                optimizer.zero_grad()
                loss.backward()  # type: ignore[no-untyped-call]
                optimizer.step()
                total += loss.item() * len(rows)
            losses.append(total / len(data))
        self.losses_ = np.array(losses)
        W1, b1, W2, b2 = (parameter.detach().numpy() for parameter in encode)
        return (W1, first[1], b1), (W2, second[1], b2)

    def _project(self, features: _Floats) -> Outputs:
        hidden = expit((features - self.mean_) / self.scale_ @ self.hidden_weights_ + self.hidden_offset_)
        outputs: Outputs = hidden @ self.code_weights_ + self.code_offset_
        return outputs


_MOMENTUM = 0.9
_DECAY = 2e-4
_RATES = {True: 1e-3, False: 0.1}


def train_rbm(
    visible: _Floats, n_hidden: int, epochs: int, batch_size: int, rng: np.random.Generator, *, is_gaussian: bool
) -> _Layer:
    """Train a restricted Boltzmann machine by one step of contrastive divergence.

    Momentum, weight decay and learning rates are those of Hinton and Salakhutdinov (2006).

    Parameters
    ----------
    visible : ndarray, shape (n, d)
        Real values of unit variance, or probabilities.
    n_hidden : int
        Number of hidden units.
    epochs, batch_size : int
        Passes over the items, and items per mini-batch.
    rng : Generator
        Source of randomness.
    is_gaussian : bool
        Whether the visible units are real, with unit variance, or binary.

    Returns
    -------
    tuple
        Weights (d, n_hidden), offsets of the visible units, offsets of the hidden units.
    """
    W = 0.01 * rng.standard_normal((visible.shape[1], n_hidden))
    b, c = np.zeros(visible.shape[1]), np.zeros(n_hidden)
    moves = np.zeros_like(W), np.zeros_like(b), np.zeros_like(c)
    for _ in range(epochs):
        for rows in _batches(len(visible), batch_size, rng):
            data = visible[rows]
            hidden = expit(data @ W + c)
            sampled = (rng.random(hidden.shape) < hidden).astype(np.float64)
            rebuilt = sampled @ W.T + b if is_gaussian else expit(sampled @ W.T + b)
            again = expit(rebuilt @ W + c)
            slopes = (
                (data.T @ hidden - rebuilt.T @ again) / len(rows) - _DECAY * W,
                (data - rebuilt).mean(axis=0),
                (hidden - again).mean(axis=0),
            )
            for parameter, move, slope in zip((W, b, c), moves, slopes, strict=True):
                move *= _MOMENTUM
                move += _RATES[is_gaussian] * slope
                parameter += move
    return W, b, c


def _batches(n_items: int, batch_size: int, rng: np.random.Generator) -> list[NDArray[np.intp]]:
    """Return the rows of the mini-batches of one epoch, in random order."""
    order = rng.permutation(n_items)
    return [order[start : start + batch_size] for start in range(0, n_items, batch_size)]
