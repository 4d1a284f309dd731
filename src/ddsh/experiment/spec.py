"""Specifications of experiments, read from TOML files."""

import os
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Any, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from ddsh.codes import MAX_BITS
from ddsh.datasets import Protocol, get_protocol
from ddsh.datasets.protocols import SubsampledProtocol
from ddsh.errors import InvalidInput, UnknownName

__all__ = ["BackboneSpec", "MethodSpec", "QuickSpec", "Run", "Spec", "find_spec", "read_spec"]

MAX_BYTES = 1_000_000
"""Maximum size of an experiment file."""

_MAX_DOTS = 200

_LABEL = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]*")


def _distinct(values: Any) -> tuple[int, ...]:  # noqa: ANN401 -- a value of a TOML file
    if not isinstance(values, list | tuple) or not values:
        raise ValueError("must be a list of whole numbers")
    if any(not isinstance(value, int) or isinstance(value, bool) for value in values):
        raise ValueError("must be whole numbers")
    if len(set(values)) < len(values):
        raise ValueError("must not have a number twice")
    return tuple(values)


_Bits = Annotated[tuple[Annotated[int, Field(ge=1, le=MAX_BITS)], ...], BeforeValidator(_distinct)]
_Seeds = Annotated[tuple[Annotated[int, Field(ge=0)], ...], BeforeValidator(_distinct)]
_Count = Annotated[int, Field(ge=1, strict=True)]
_Name = Annotated[str, Field(min_length=1, strict=True)]


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class BackboneSpec(_Part):
    """Parameters of the backbone of an experiment or a method; None is the default.

    Attributes
    ----------
    name, image_size, n_frozen, weights, device
        See :class:`ddsh.Backbone`.
    """

    name: _Name | None = None
    image_size: _Count | None = None
    n_frozen: Annotated[int, Field(ge=0, strict=True)] | None = None
    weights: _Name | None = None
    device: _Name | None = None

    def options(self) -> dict[str, Any]:
        """Return the parameters that are not None."""
        return self.model_dump(exclude_none=True)


_BackboneSpec = Annotated[
    BackboneSpec, BeforeValidator(lambda value: {"name": value} if isinstance(value, str) else value)
]


class QuickSpec(_Part):
    """Changes for a quick version of an experiment; None means no change.

    Attributes
    ----------
    bits, seeds : tuple of int, optional
        Code lengths and seeds.
    n_query, n_train, n_database : int, optional
        Number of images of each set, drawn at random.
    epochs : int, optional
        Epochs of methods that train a network.
    methods : dict
        Parameters of rows that suit fewer images, by label; they replace all parameters of the row.
    """

    bits: _Bits | None = None
    seeds: _Seeds | None = None
    n_query: _Count | None = None
    n_train: _Count | None = None
    n_database: _Count | None = None
    epochs: _Count | None = None
    methods: dict[str, dict[str, Any]] = {}


class MethodSpec(_Part):
    """One row of an experiment's table.

    Attributes
    ----------
    label : str
        Name of the row.
    method : str
        Name of the method.
    params : dict
        Parameters of the method, without code length, seed and backbone.
    backbone : BackboneSpec
        Changes to the backbone of the experiment.
    """

    label: str
    method: _Name
    params: dict[str, Any] = Field(default_factory=dict)
    backbone: _BackboneSpec = BackboneSpec()


@dataclass(frozen=True)
class Run:
    """One cell of an experiment.

    Parameters
    ----------
    label, method : str
        Name of the row, and of the method.
    params : dict
        Parameters of the method, without code length, seed and backbone.
    backbone : dict or None
        Parameters of the backbone; None for the default of the method.
    n_bits, seed : int
        Code length, and the random seed of split and method.
    """

    label: str
    method: str
    params: Mapping[str, Any]
    backbone: Mapping[str, Any] | None
    n_bits: int
    seed: int

    @property
    def title(self) -> str:
        """Name of the run in messages."""
        return f"{self.label}, {self.n_bits} bits, seed {self.seed}"

    @property
    def file_name(self) -> str:
        """File name of the result."""
        return f"{self.label}-{self.n_bits}bits-seed{self.seed}.json"


class Spec(_Part):
    """An experiment.

    Attributes
    ----------
    name : str
        Name of the file without suffix; results are written to a folder of this name.
    dataset, protocol : str
        Dataset and protocol.
    bits, seeds : tuple of int
        Code lengths and seeds.
    methods : tuple of MethodSpec
        Rows of the table.
    backbone : BackboneSpec, optional
        Backbone of all methods without their own: deep methods train it, other methods use its features. Without it,
        the latter use pixels.
    examples : tuple of int
        Code lengths whose first seed keeps example queries with the images they retrieve.
    reranked : tuple of int
        Code lengths whose ranking by real outputs is scored, too.
    every : int, optional
        Score deep methods after every so many epochs, too.
    quick : QuickSpec
        Changes for the quick version.
    figure : str, optional
        The figure of the report that shows the experiment.
    is_quick : bool
        Whether this is the quick version.
    """

    name: str
    dataset: _Name
    protocol: _Name
    bits: _Bits
    seeds: _Seeds
    methods: tuple[MethodSpec, ...]
    backbone: _BackboneSpec | None = None
    examples: _Bits | tuple[()] = ()
    reranked: _Bits | tuple[()] = ()
    every: _Count | None = None
    quick: QuickSpec = QuickSpec(seeds=(0,), n_query=100, n_train=500, n_database=2000, epochs=1)
    figure: str | None = None
    is_quick: bool = False

    def runs(self) -> Iterator[Run]:
        """Yield every run, seed by seed."""
        shared = {} if self.backbone is None else self.backbone.options()
        for seed in self.seeds:
            for one in self.methods:
                for n_bits in self.bits:
                    backbone = shared | one.backbone.options() or None
                    yield Run(one.label, one.method, one.params, backbone, n_bits, seed)

    def split_rule(self) -> Protocol:
        """Return the protocol that splits the dataset."""
        whole, quick = get_protocol(self.protocol), self.quick
        if not self.is_quick or (quick.n_query, quick.n_train, quick.n_database) == (None, None, None):
            return whole
        return SubsampledProtocol.of(whole, quick.n_query, quick.n_train, quick.n_database)

    def folder(self, results: str | os.PathLike[str]) -> Path:
        """Return the folder of its results; quick versions have their own."""
        return Path(results) / "quick" / self.name if self.is_quick else Path(results) / self.name

    def replace(self, **changes: Any) -> Self:  # noqa: ANN401 -- any field
        """Return a copy with some fields changed."""
        return self.model_copy(update=changes)

    def quicker(self) -> Self:
        """Return the quick version."""
        return self.replace(bits=self.quick.bits or self.bits, seeds=self.quick.seeds or self.seeds, is_quick=True)

    def only(self, labels: Sequence[str]) -> Self:
        """Return a copy with the given rows only."""
        known = {one.label for one in self.methods}
        for label in labels:
            if label not in known:
                raise UnknownName("label", label, known)
        return self.replace(methods=tuple(one for one in self.methods if one.label in labels))

    def with_bits(self, bits: Sequence[int]) -> Self:
        """Return a copy with other code lengths."""
        return self.replace(bits=tuple(dict.fromkeys(bits)))

    def with_seeds(self, n_seeds: int) -> Self:
        """Return a copy with `n_seeds` seeds: its own, then the following numbers."""
        if n_seeds < 1:
            raise InvalidInput(f"At least one seed is needed; got {n_seeds}.")
        following = range(max(self.seeds) + 1, max(self.seeds) + 1 + n_seeds)
        return self.replace(seeds=(*self.seeds, *following)[:n_seeds])

    def with_backbone(self, **options: Any) -> Self:  # noqa: ANN401 -- see BackboneSpec
        """Return a copy with another backbone for every method."""
        methods = tuple(one.model_copy(update={"backbone": BackboneSpec()}) for one in self.methods)
        return self.replace(backbone=BackboneSpec(**options), methods=methods)


def find_spec(given: str, folder: str | os.PathLike[str] = "experiments") -> Path:
    """Return the file of an experiment.

    Parameters
    ----------
    given : str
        A TOML file, or the name of an experiment.
    folder : path
        Folder of experiments, searched before the built-in ones.
    """
    path = Path(given)
    if path.suffix == ".toml" or path.is_file():
        return path
    package = Path(str(files("ddsh")))
    bundled = package / "experiments"
    if not bundled.is_dir():  # a checkout of the repository
        bundled = package.parents[1] / "experiments"
    known = {found.stem: found for place in (bundled, Path(folder)) for found in sorted(place.glob("*.toml"))}
    if not known:
        raise InvalidInput(f"There are no experiments in {folder}, so {given!r} is unknown; give a TOML file.")
    if given not in known:
        raise UnknownName("experiment", given, known)
    return known[given]


def read_spec(path: str | os.PathLike[str]) -> Spec:
    """Read an experiment from a TOML file.

    A file with ``of`` is part of another experiment, such as a figure that needs some runs of a table: it has the name
    of the other experiment and shares its results.
    """
    source = Path(path)
    content = _read_toml(source)
    if "of" not in content:
        return _read_whole(source, content)
    try:
        part = _PartFile.model_validate(content)
        whole = source.parent / f"{part.of}.toml"
        spec = _read_whole(whole, _read_toml(whole))
        if part.figure:
            spec = spec.replace(figure=part.figure)
        if part.bits:
            if unknown := set(part.bits) - set(spec.bits):
                raise InvalidInput(f"bits: {spec.name} has {', '.join(map(str, spec.bits))}; got {min(unknown)}.")
            spec = spec.replace(bits=part.bits, quick=spec.quick.model_copy(update={"bits": None}))
        return spec.only(part.labels) if part.labels else spec
    except ValidationError as error:
        raise InvalidInput(f"{source}: {_first_problem(error)}") from error
    except InvalidInput as error:
        raise InvalidInput(f"{source}: {error}") from error


class _PartFile(_Part):
    """A file that is part of another experiment."""

    of: _Name
    figure: _Name | None = None
    labels: list[_Name] | None = None
    bits: _Bits | None = None


def _read_whole(path: Path, content: dict[str, Any]) -> Spec:
    try:
        methods = content.get("methods")
        if not isinstance(methods, dict) or not methods:
            raise InvalidInput("methods must be a table with at least one method.")
        rows = []
        for label, given in methods.items():
            if not _LABEL.fullmatch(label):
                raise InvalidInput(f"methods: a label names a file: letters, digits and . _ + - only; got {label!r}.")
            if not isinstance(given, dict):
                raise InvalidInput(f"methods.{label} must be a table; got {given!r}.")
            params = {name: value for name, value in given.items() if name not in ("method", "backbone")}
            row = {"label": label, "method": given.get("method", label), "params": params}
            rows.append(row | ({"backbone": given["backbone"]} if "backbone" in given else {}))
        quick = content.get("quick")
        if isinstance(quick, dict) and isinstance(quick.get("methods"), dict):
            for label in quick["methods"].keys() - methods.keys():
                raise UnknownName("label in quick.methods", label, methods)
        if own := content.keys() & {"name", "figure", "is_quick"}:
            raise InvalidInput(f"{min(own)}: unknown; remove it.")
        return Spec.model_validate(content | {"name": path.stem, "methods": rows})
    except ValidationError as error:
        raise InvalidInput(f"{path}: {_first_problem(error)}") from error
    except InvalidInput as error:
        raise InvalidInput(f"{path}: {error}") from error


def _first_problem(error: ValidationError) -> str:
    first = error.errors()[0]
    field = ".".join(map(str, first["loc"]))
    message = {"extra_forbidden": "unknown; remove it", "missing": "missing"}.get(first["type"], first["msg"])
    return f"{field}: {' '.join(message.removeprefix('Value error, ').split())}."


def _read_toml(path: Path) -> dict[str, Any]:
    try:
        if path.stat().st_size > MAX_BYTES:
            raise InvalidInput(f"{path} has more than {MAX_BYTES:,} bytes; it is not an experiment.")
        text = path.read_text(encoding="utf-8")
        if any(line.count(".") > _MAX_DOTS for line in text.splitlines()):  # tomllib takes gigabytes for such a key
            raise InvalidInput(f"{path} has a line with more than {_MAX_DOTS:,} dots; it is not an experiment.")
        return tomllib.loads(text)
    except InvalidInput:
        raise
    except (OSError, ValueError, RecursionError) as error:  # a number of thousands of digits is a ValueError
        reason = getattr(error, "strerror", None) or str(error)
        raise InvalidInput(f"{path} cannot be read as an experiment ({reason}).") from error
