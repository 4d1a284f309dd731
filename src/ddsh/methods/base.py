"""Base class of hashing methods."""

from abc import ABC, abstractmethod
from collections.abc import Collection, Sized
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.exceptions import NotFittedError
from sklearn.utils import TransformerTags
from sklearn.utils.validation import check_array

import ddsh
from ddsh.codes import MAX_BITS, BinaryCodes
from ddsh.errors import InvalidInput, InvalidType
from ddsh.labels import Labels, LabelsLike, SingleLabels, as_labels

if TYPE_CHECKING:
    from ddsh.backbones import Backbone

__all__ = ["Hasher", "MethodCard", "Outputs", "SearchRange", "check_features"]

Outputs: TypeAlias = NDArray[np.floating[Any]]
"""Real outputs of a method, shape (n, n_bits); their signs are the codes."""

SearchRange: TypeAlias = float | tuple[Any, ...]
"""Values of a parameter to try: steps by a factor, or choices."""


@dataclass(frozen=True)
class MethodCard:
    """Facts about a method, for documentation and command line.

    Parameters
    ----------
    name : str
        Name on the command line.
    title : str
        Full name.
    authors, venue : str
        Authors, and the venue of publication.
    year : int
        Year of publication.
    supervision : {"none", "unsupervised", "supervised"}
        Data-independent, learned from items only, or from items and labels.
    inputs : {"features", "images"}
        What `fit` and `encode` take.
    deviations : tuple of str
        Differences from the paper.
    """

    name: str
    title: str
    authors: str
    venue: str
    year: int
    supervision: Literal["none", "unsupervised", "supervised"]
    inputs: Literal["features", "images"]
    deviations: tuple[str, ...] = ()


class Hasher(BaseEstimator, ABC):  # type: ignore[misc]  # scikit-learn has no types
    """Base class of methods that learn binary codes.

    A hasher is a scikit-learn estimator and transformer. Subclasses have a `card`, store their parameters in
    ``__init__`` without logic, and implement `_fit` and `_project`; learned attributes end in ``_``.
    """

    card: ClassVar[MethodCard]
    above_zero: ClassVar[tuple[str, ...]] = ()
    """Parameters that must be above 0."""
    learns_database: ClassVar[bool] = False
    """Whether the training items are a database whose codes, `codes_`, are learned; see protocols."""
    n_bits: int

    def search_space(self, labels: Labels) -> "dict[str, SearchRange]":
        """Return the parameters that ``ddsh tune`` varies, in order; none by default.

        Parameters
        ----------
        labels : Labels
            Labels of the training items; some parameters matter for multi-label items only.

        Returns
        -------
        dict
            For each parameter, a factor that numbers are multiplied with or divided by, or a tuple of choices. A dot
            leads to a parameter of a parameter: ``training.learning_rate``.
        """
        return {}

    def adapted(self, labels: Labels, given: Collection[str] | None = None) -> Self:
        """Return a copy whose parameters suit the labels: few items, or several labels each; itself if they do already.

        ``ddsh train`` and :func:`ddsh.evaluate` of a method by name use it. `fit` never changes parameters.

        Parameters
        ----------
        labels : Labels
            Labels of the training items.
        given : collection of str, optional
            Parameters, and fields of :class:`Training`, that stay as they are; by default all that are not None.
        """
        return self

    @property
    def inputs(self) -> Literal["features", "images"]:
        """What `fit` and `encode` take: features or images."""
        return self.card.inputs

    def fit(self, X: Any, y: LabelsLike | None = None) -> Self:  # noqa: ANN401, N803 -- scikit-learn's name
        """Learn from items `X` and, if the method is supervised, their labels `y`.

        Parameters
        ----------
        X : matrix of features (n, d)
            The training items.
        y : Labels, vector, or 0/1 matrix, optional
            Their labels.

        Returns
        -------
        Self
            The fitted method; a second call starts from scratch.
        """
        self._check_parameters()
        items = self._check_items(X)
        if hasattr(X, "columns"):
            self._check_feature_names(X, reset=True)
        self._fit(items, self._check_labels(items, y))
        self.n_features_in_ = items.shape[1]
        return self

    def project(self, X: Any) -> Outputs:  # noqa: ANN401, N803
        """Return real outputs, shape (n, n_bits); their signs are the codes."""
        self._check_fitted()
        if hasattr(X, "columns"):
            self._check_feature_names(X, reset=False)
        items = self._check_items(X)
        width = getattr(self, "n_features_in_", None)
        if width is not None and items.shape[1] != width:
            raise InvalidInput(
                f"X has {items.shape[1]} features, but {type(self).__name__} is expecting {width} features as input."
            )
        return self._project(items)

    def encode(self, X: Any) -> BinaryCodes:  # noqa: ANN401, N803
        """Return binary codes: a bit is 1 where the output is above zero."""
        return BinaryCodes.from_outputs(self.project(X))

    def transform(self, X: Any) -> NDArray[np.uint8]:  # noqa: ANN401, N803
        """Return the bits of the codes as a matrix of zeros and ones, shape (n, n_bits)."""
        return self.encode(X).bits()

    def fit_transform(self, X: Any, y: LabelsLike | None = None) -> NDArray[np.uint8]:  # noqa: ANN401, N803
        """Fit, and return the bits of the training items."""
        return self.fit(X, y).transform(X)

    def score(self, X: Any, y: LabelsLike) -> float:  # noqa: ANN401, N803
        """Return the mean average precision on held-out items.

        Every item is a query, ranked against all other items of `X`; see :func:`ddsh.score`.

        Parameters
        ----------
        X : items
            Held-out items, as for :meth:`encode`.
        y : Labels, vector, or 0/1 matrix
            Their labels.
        """
        codes, labels = self.encode(X), as_labels(y)
        return ddsh.score(codes, codes, labels, labels, leave_one_out=True).map

    def with_backbone(self, backbone: "Backbone") -> Self:
        """Return a copy that trains `backbone`; methods that take features return self."""
        return self

    @property
    def trained_backbone(self) -> "Backbone | None":
        """The backbone that the method trains, or None if it takes features."""
        return None

    def get_weights(self) -> dict[str, NDArray[Any]]:
        """Return the learned attributes as named arrays."""
        self._check_fitted()
        learned = {name: value for name, value in vars(self).items() if name.endswith("_") and not name.startswith("_")}
        return {name: np.asarray(value) for name, value in learned.items() if name != "feature_names_in_"}

    def set_weights(self, weights: dict[str, NDArray[Any]]) -> None:
        """Restore the arrays of :meth:`get_weights`."""
        for name, value in weights.items():
            setattr(self, name, value if value.ndim else value.item())

    def describe_params(self) -> dict[str, Any]:
        """Return every parameter as plain JSON, with presets and defaults resolved."""
        params: dict[str, Any] = self.get_params(deep=False)
        return params

    @classmethod
    def from_description(cls, params: dict[str, Any]) -> Self:
        """Build the method from plain values, such as those of :meth:`describe_params`."""
        return cls(**params)

    @abstractmethod
    def _fit(self, items: Any, labels: Labels | None) -> None:  # noqa: ANN401
        """Learn from checked items; set attributes that end in ``_``."""

    @abstractmethod
    def _project(self, items: Any) -> Outputs:  # noqa: ANN401
        """Return real outputs, shape (n, n_bits)."""

    def _is_fitted(self) -> bool:
        return hasattr(self, "n_features_in_")

    def __sklearn_is_fitted__(self) -> bool:
        return self._is_fitted()

    def __sklearn_tags__(self) -> Any:  # noqa: ANN401 -- scikit-learn has no types
        tags = super().__sklearn_tags__()
        tags.target_tags.required = self.card.supervision == "supervised"
        tags.transformer_tags = TransformerTags(preserves_dtype=[])
        return tags

    def _check_fitted(self) -> None:
        if not self._is_fitted():
            raise NotFittedError(f"This {type(self).__name__} is not fitted yet; call fit first.")

    def _check_parameters(self) -> None:
        if not 1 <= self.n_bits <= MAX_BITS:
            raise InvalidInput(f"n_bits must be 1 to {MAX_BITS}; got {self.n_bits}.")
        for name in self.above_zero:
            if not getattr(self, name) > 0:
                raise InvalidInput(f"{name} must be above 0; got {getattr(self, name)}.")

    def _check_at_least_one(self, *names: str) -> None:
        """Raise if one of these parameters is below 1."""
        for name in names:
            if not getattr(self, name) >= 1:
                raise InvalidInput(f"{name} must be 1 or more; got {getattr(self, name)}.")

    def _check_items(self, X: Any) -> Any:  # noqa: ANN401, N803
        """Return `X` in the form that `_fit` and `_project` take, or raise."""
        return check_features(X)

    def _check_labels(self, items: Sized, y: LabelsLike | None) -> Labels | None:
        if self.card.supervision != "supervised":
            return None
        if y is None:
            raise InvalidInput(f"{self.card.name} requires y to be passed, but the target y is None: give fit(X, y).")
        labels = as_labels(y)
        if len(labels) != len(items):
            raise InvalidInput(f"{len(items)} items but {len(labels)} labels; give one label row per item.")
        if isinstance(labels, SingleLabels) and not labels.labelled().all():
            n_without = int((~labels.labelled()).sum())
            raise InvalidInput(f"{n_without} of {len(labels)} items have no label; give the labelled ones alone.")
        return labels


def check_features(X: Any) -> NDArray[np.float64]:  # noqa: ANN401, N803
    """Return `X` as a finite matrix of float64, or raise."""
    try:
        features: NDArray[np.float64] = check_array(X, input_name="X").astype(np.float64, copy=False)
    except (TypeError, ValueError) as error:
        kind = InvalidType if isinstance(error, TypeError) else InvalidInput
        reason = " ".join(str(error).split())
        raise kind(f"Features must be a finite numeric matrix (n, d) with n >= 1. {reason}") from error
    return features
