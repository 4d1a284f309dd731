"""Evaluation of a model: the one place where the query set is used."""

import os
import platform
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np

import ddsh
from ddsh.codes import BinaryCodes
from ddsh.datasets import Dataset, Protocol, Split, get_protocol, load
from ddsh.errors import InvalidInput
from ddsh.evaluation.bits import bit_health
from ddsh.evaluation.examples import draw_examples
from ddsh.evaluation.outputs import histogram_of_outputs, score_reranked
from ddsh.evaluation.result import BackboneInfo, EpochRecord, Result
from ddsh.evaluation.scores import score
from ddsh.images import SomeImages
from ddsh.methods.base import Hasher
from ddsh.methods.training import TrainingStep
from ddsh.model import Model

__all__ = ["evaluate", "evaluate_fitted", "versions"]

_PACKAGES = ("numpy", "scipy", "scikit-learn", "pillow", "torch", "lightgbm", "PyMaxflow", "faiss-cpu")


def evaluate(
    model: str | Hasher | Model,
    dataset: str | os.PathLike[str] | Dataset,
    protocol: str | Protocol | None = None,
    seed: int = 0,
    *,
    root: str | os.PathLike[str] | None = None,
    examples: bool = False,
    reranked: bool = False,
    every: int | None = None,
    checkpoints: str | os.PathLike[str] | None = None,
    resume: bool = False,
    on_step: Callable[[TrainingStep], None] | None = None,
) -> Result:
    """Split a dataset, fit a model on its training images, and score the query set once.

    Parameters
    ----------
    model : str, Hasher or Model
        A model, a method, or the name of a method; it is fitted here. The parameters of a method given by name suit
        the number of training images; see :meth:`ddsh.Hasher.adapted`.
    dataset : str, path or Dataset
        A dataset, its name, or a path; see :func:`ddsh.load`.
    protocol : str or Protocol, optional
        How to split the dataset, and the number of ranks to score; the default protocol of the dataset if None.
    seed : int
        Random seed of the split.
    root : path, optional
        Folder of named datasets.
    examples : bool
        Keep example queries with the images they retrieve.
    reranked : bool
        Also score the ranking by real outputs.
    every : int, optional
        Also record the MAP of a deep method after every so many epochs. Do not choose parameters by it, unless the
        protocol splits training images alone.
    checkpoints, resume, on_step
        See :meth:`ddsh.Model.fit`.

    Returns
    -------
    Result
        Scores and everything needed to repeat the run.

    Examples
    --------
    >>> import ddsh
    >>> ddsh.evaluate("lsh", "sample").map > 0.3
    True
    """
    data = (
        dataset if isinstance(dataset, Dataset) else load(os.fspath(dataset), root=None if root is None else Path(root))
    )
    rule = get_protocol(protocol or data.protocol) if not isinstance(protocol, Protocol) else protocol
    start = time.perf_counter()
    split = rule.split(data, seed)
    fitted: Model = model if isinstance(model, Model) else Model(model, look_bits=0)
    labels = data.labels.take(split.train)
    if isinstance(model, str):
        fitted = Model(_method_of(fitted).adapted(labels), look_bits=0)

    def score_epoch(record: dict[str, Any]) -> None:
        """Add the MAP after an epoch to its record."""
        if every and record["epoch"] % every == 0:
            record["map"] = evaluate_fitted(fitted, data, split).map

    images = SomeImages(data.images, split.train)
    on_epoch = score_epoch if every and _method_of(fitted).card.inputs == "images" else None
    fitted.fit(images, labels, checkpoints=checkpoints, resume=resume, on_step=on_step, on_epoch=on_epoch)
    return evaluate_fitted(fitted, data, split, examples=examples, reranked=reranked, start=start)


def evaluate_fitted(
    model: Model,
    dataset: Dataset,
    split: Split,
    *,
    examples: bool = False,
    reranked: bool = False,
    top_k: int | None = None,
    start: float | None = None,
) -> Result:
    """Score a fitted model on the query set of a split.

    Parameters
    ----------
    model : Model
        The fitted model.
    dataset : Dataset
        The images.
    split : Split
        Its query and database rows.
    examples, reranked : bool
        See :func:`evaluate`.
    top_k : int, optional
        Number of results that mean average precision considers; that of the protocol by default.
    start : float, optional
        Start of the run, by ``time.perf_counter``; now by default.
    """
    method = _method_of(model)
    start = time.perf_counter() if start is None else start
    query_outputs = model.project(SomeImages(dataset.images, split.query))
    if split.learned_database:
        database_outputs = _learned_codes(method, split).signs().astype(np.float32)
    else:
        database_outputs = model.project(SomeImages(dataset.images, split.database))
    query, database = BinaryCodes.from_outputs(query_outputs), BinaryCodes.from_outputs(database_outputs)
    labels = dataset.labels.take(split.query), dataset.labels.take(split.database)
    top_k = split.protocol.top_k if top_k is None else top_k
    result = Result(
        method=model.name,
        n_bits=model.n_bits,
        dataset=dataset.name,
        protocol=split.protocol.name,
        seed=split.seed,
        split=split.fingerprint,
        backbone=None if model.backbone is None else BackboneInfo(**model.backbone.describe()),
        params=method.describe_params(),
        scores=score(query, database, *labels, top_k=top_k).thinned(),
        bits=bit_health(database, len(dataset.class_names)),
        outputs=histogram_of_outputs(query_outputs) if method.inputs == "images" else None,
        reranked=score_reranked(query_outputs, database_outputs, *labels, top_k) if reranked else None,
        history=[EpochRecord(**epoch) for epoch in model.history],
        seconds=time.perf_counter() - start,
        peak_memory=_peak_memory(),
        versions=versions(),
    )
    if examples:
        result._examples = draw_examples(dataset, split, query_outputs, database_outputs)
    return result


def _peak_memory() -> int | None:
    """Return the peak resident memory of this process in bytes, or None if unknown."""
    try:
        import resource
    except ImportError:  # Windows
        return None
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else 1024 * peak


def _method_of(model: Model) -> Hasher:
    """Return the method that is scored."""
    if model.method is None:
        raise InvalidInput("The model has look bits only, which have no scores; train a method (see: ddsh methods).")
    return model.method


def _learned_codes(method: Hasher, split: Split) -> BinaryCodes:
    """Return the codes that a method learned for the database."""
    codes: BinaryCodes | None = getattr(method, "codes_", None) if method.learns_database else None
    if codes is None or len(codes) != len(split.database):
        raise InvalidInput(
            f"The protocol {split.protocol.name!r} searches the codes that a method learned for the database, and"
            f" {method.card.name} has none; train ADSH with it, or choose the protocol of the dataset."
        )
    return codes


def versions() -> dict[str, str]:
    """Return the versions of Python and of the packages that affect results."""
    found = {"ddsh": ddsh.__version__, "python": platform.python_version()}
    for name in _PACKAGES:
        with suppress(PackageNotFoundError):
            found[name] = version(name)
    return found
