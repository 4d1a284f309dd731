"""Terms of losses on a mini-batch that several deep methods share."""

import torch
from torch import Tensor, nn
from torch.nn import functional

from ddsh.labels import Labels
from ddsh.methods._deep import Rows

__all__ = [
    "class_loss",
    "log_cosh",
    "mean_or_zero",
    "off_diagonal",
    "seeded_linear",
    "signs",
    "similar_pairs",
    "straight_through",
    "triplet_gaps",
]


def similar_pairs(labels: Labels, rows: Rows, outputs: Tensor) -> Tensor:
    """Return which pairs of a mini-batch are similar, as booleans on the device of the outputs."""
    taken = labels.take(rows)
    return torch.from_numpy(taken.similar(taken)).to(outputs.device)


def off_diagonal(pairs: Tensor) -> Tensor:
    """Return the entries of a square matrix above its diagonal: every pair once."""
    upper = torch.ones_like(pairs, dtype=torch.bool).triu(1)
    return pairs[upper]


def mean_or_zero(values: Tensor) -> Tensor:
    """Return the mean, 0 where a mini-batch has no such pair or triplet."""
    return values.sum() / max(values.numel(), 1)


def triplet_gaps(scores: Tensor, similar: Tensor) -> Tensor:
    """Return s_ip - s_in of all triplets (i, p, n) of a mini-batch: p is similar to i, n is not.

    Parameters
    ----------
    scores : Tensor, shape (n, n)
        A score of each pair.
    similar : Tensor of bool, shape (n, n)
        Which pairs are similar.
    """
    positive = similar & ~torch.eye(len(similar), dtype=torch.bool, device=similar.device)
    triplets = positive[:, :, None] & ~similar[:, None, :]
    return (scores[:, :, None] - scores[:, None, :])[triplets]


def signs(outputs: Tensor) -> Tensor:
    """Return -1 and +1, the codes of real outputs."""
    return torch.where(outputs > 0, 1.0, -1.0).to(outputs)


def straight_through(outputs: Tensor) -> Tensor:
    """Return the signs; their gradient is passed on to the outputs unchanged."""
    return outputs + (signs(outputs) - outputs).detach()


def log_cosh(values: Tensor) -> Tensor:
    """Return log cosh of each value; they must be small, as abs(tanh(u)) - 1 is."""
    return torch.log(torch.cosh(values))


def class_loss(logits: Tensor, targets: Tensor, *, one_each: bool) -> Tensor:
    """Return the cross-entropy of items with one class each, or the mean binary one of all classes.

    Parameters
    ----------
    logits : Tensor, shape (n, n_classes)
        Scores of the classes.
    targets : Tensor of 0 and 1, shape (n, n_classes)
        Classes of the items.
    one_each : bool
        Whether every item has one class.
    """
    if one_each:
        return functional.cross_entropy(logits, targets)
    return functional.binary_cross_entropy_with_logits(logits, targets)


def seeded_linear(n_inputs: int, n_outputs: int, seed: int) -> nn.Linear:
    """Return a linear layer without offsets, with PyTorch's usual initial weights, drawn from a seed."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return nn.Linear(n_inputs, n_outputs, bias=False)
