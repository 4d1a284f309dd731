"""Base class of two-step methods: codes from labels, then an extension."""

import os
from abc import abstractmethod
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from ddsh.codes import BinaryCodes
from ddsh.errors import InvalidInput
from ddsh.labels import Labels, LabelsLike
from ddsh.methods._extensions import Extension, FitOptions, Learned, as_extension
from ddsh.methods.base import Hasher, Outputs, SearchRange
from ddsh.methods.training import SEARCHED, TrainingStep

if TYPE_CHECKING:
    from ddsh.backbones import Backbone

__all__ = ["TwoStepHasher"]

_MOST_KINDS = 2000


class TwoStepHasher(Hasher):
    """Base class of two-step methods.

    The first step learns codes of the training items from labels alone, the second step trains an extension that
    predicts these codes for new items. Subclasses implement :meth:`learn_codes`.

    Attributes
    ----------
    extension : {"trees", "linear", "kernel", "cnn"} or Extension
        Model that predicts the codes: boosted trees, ridge regression, ridge regression on Gaussian kernels, or a
        network. The items are images for ``cnn``, features for the others. A parameter of every subclass.
    seed : int
        Random seed. A parameter of every subclass.
    codes_ : BinaryCodes
        Learned codes of the training items; not saved with the model.
    learned_ : Learned
        The fitted extension.
    history_ : list of dict
        Loss of every epoch, if the extension trains a network.
    """

    extension: str | Extension
    seed: int

    @property
    def inputs(self) -> Literal["features", "images"]:
        """What `fit` and `encode` take; depends on the extension."""
        return as_extension(self.extension).inputs

    def fit(
        self,
        X: Any,  # noqa: ANN401, N803 -- scikit-learn's name
        y: LabelsLike | None = None,
        *,
        checkpoints: str | os.PathLike[str] | None = None,
        resume: bool = False,
        on_step: Callable[[TrainingStep], None] | None = None,
    ) -> Self:
        """Learn codes from the labels `y`, and to predict them from the items `X`.

        Parameters
        ----------
        X : matrix of features (n, d), or uint8 images
            The training items.
        y : Labels, vector, or 0/1 matrix
            Their labels.
        checkpoints : path, optional
            Folder for checkpoints, if the extension trains a network.
        resume : bool
            Continue from the newest checkpoint, if any.
        on_step : callable, optional
            Called after each mini-batch, if the extension trains a network.
        """
        self._check_parameters()
        extension = as_extension(self.extension)
        options = FitOptions(checkpoints, resume, on_step)
        if extension.inputs == "features" and options != FitOptions():
            raise InvalidInput("Only extension 'cnn' trains step by step: leave out checkpoints, resume and on_step.")
        items = extension.check_items(X)
        labels = self._check_labels(items, y)
        assert labels is not None, "two-step methods are supervised"
        kinds, _ = labels.distinct()
        some = kinds.take(slice(_MOST_KINDS))
        if some.similar(some).all():
            raise InvalidInput("All items are similar to each other (one class only?): there is nothing to learn.")
        signs = self.learn_codes(labels)
        self.codes_ = BinaryCodes.from_signs(signs)
        self._set_learned(extension.learn(items, signs, seed=self.seed, options=options))
        return self

    @abstractmethod
    def learn_codes(self, labels: Labels) -> NDArray[np.int8]:
        """Return codes of -1 and +1 for the labelled items, shape (n, n_bits)."""

    def search_space(self, labels: Labels) -> dict[str, SearchRange]:
        """Return the parameters that ``ddsh tune`` varies: those of the network, if the extension trains one."""
        if as_extension(self.extension).trained_backbone is None:
            return {}
        return {f"extension.training.{name}": factor for name, factor in SEARCHED.items()}

    def adapted(self, labels: Labels, given: Collection[str] | None = None) -> Self:
        """Return a copy whose extension suits few items; see :meth:`Hasher.adapted`."""
        extension = as_extension(self.extension)
        suited = extension.adapted(labels)
        if suited is extension:
            return self
        copied: Self = clone(self)
        return copied.set_params(extension=suited)  # type: ignore[no-any-return]

    def _set_learned(self, learned: Learned) -> None:
        self.learned_ = learned
        self.history_: list[dict[str, Any]] = learned.history
        self.n_features_in_ = learned.n_features

    def _fit(self, items: Any, labels: Labels | None) -> None:  # noqa: ANN401
        raise AssertionError("TwoStepHasher overrides fit")

    def _project(self, items: Any) -> Outputs:  # noqa: ANN401
        return self.learned_.project(items)

    def with_backbone(self, backbone: "Backbone") -> Self:
        """Return a copy whose extension trains `backbone`, if it takes images."""
        copied: Self = clone(self)
        return copied.set_params(extension=as_extension(self.extension).with_backbone(backbone))  # type: ignore[no-any-return]

    @property
    def trained_backbone(self) -> "Backbone | None":
        """The backbone that the extension trains, or None if it takes features."""
        return as_extension(self.extension).trained_backbone

    def get_weights(self) -> dict[str, NDArray[Any]]:
        """Return the arrays of the fitted extension; the training codes are not included."""
        self._check_fitted()
        return self.learned_.to_arrays()

    def set_weights(self, weights: dict[str, NDArray[Any]]) -> None:
        """Restore the arrays of :meth:`get_weights`."""
        self._set_learned(as_extension(self.extension).restore(weights))

    def describe_params(self) -> dict[str, Any]:
        """Return every parameter as plain JSON, with those of the extension except its backbone."""
        return super().describe_params() | {"extension": as_extension(self.extension).describe()}

    @classmethod
    def from_description(cls, params: dict[str, Any]) -> Self:
        """Build the method from plain values.

        The extension is a name, or a mapping with its ``kind`` and parameters.
        """
        if "extension" in params:
            params = params | {"extension": as_extension(params["extension"])}
        return cls(**params)

    def _check_parameters(self) -> None:
        super()._check_parameters()
        as_extension(self.extension)

    def _check_items(self, X: Any) -> Any:  # noqa: ANN401, N803
        return as_extension(self.extension).check_items(X)
