"""What an experiment is: dataset x protocol x methods x bits x seeds."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ddsh.datasets import Protocol, SubsampledProtocol, get_protocol
from ddsh.errors import InvalidInput, UnknownName

NETWORK_PARAMS = ("network", "image_size", "n_frozen", "weights")
"""What an experiment may say once for all of its methods."""


@dataclass(frozen=True)
class Run:
    """One cell of an experiment.

    Parameters
    ----------
    label : str
        What the method with these parameters is called in tables.
    method : str
        The method.
    params : dict
        Its parameters besides length and seed.
    n_bits, seed : int
        Code length, and the seed of both the split and the method.
    """

    label: str
    method: str
    params: dict[str, Any]
    n_bits: int
    seed: int

    @property
    def title(self) -> str:
        """What to call it in messages."""
        return f"{self.label}, {self.n_bits} bits, seed {self.seed}"

    @property
    def file_name(self) -> str:
        """The name of its result."""
        return f"{self.label}-{self.n_bits}bits-seed{self.seed}.json"


@dataclass(frozen=True)
class Quick:
    """What a quick look at an experiment changes; None leaves a thing as it is.

    Parameters
    ----------
    bits, seeds : tuple of int, optional
        Code lengths and seeds.
    n_query, n_train, n_database : int, optional
        How many images of each set are kept, drawn at random.
    epochs : int, optional
        Passes of methods that train a network.
    """

    bits: tuple[int, ...] | None = None
    seeds: tuple[int, ...] | None = None
    n_query: int | None = None
    n_train: int | None = None
    n_database: int | None = None
    epochs: int | None = None


USUAL_QUICK = Quick(seeds=(0,), n_query=100, n_train=500, n_database=2000, epochs=1)
"""The quick look at an experiment that does not describe one."""


@dataclass(frozen=True)
class Method:
    """One line of an experiment's table.

    Parameters
    ----------
    label : str
        What it is called in tables.
    name : str
        The method.
    params : dict
        Its parameters besides length and seed.
    """

    label: str
    name: str
    params: dict[str, Any]


@dataclass(frozen=True)
class Spec:
    """An experiment.

    Parameters
    ----------
    name : str
        The file's name; results go into a folder of this name.
    dataset, protocol : str
        What is run on.
    bits, seeds : tuple of int
        Code lengths and seeds.
    methods : tuple of Method
        The lines of its table.
    network : str, optional
        Network of all methods that do not name one: those on images train it, those on features get its features.
        Without it the latter get pixels.
    image_size, n_frozen : int, optional
        Side of the images that it sees, and how many of its first stages keep their weights.
    weights : str, optional
        File with its pretrained weights, where they are not a package.
    examples : tuple of int
        Code lengths of which a few queries are kept with the images that they find.
    reranked : tuple of int
        Code lengths of which the ranking by real outputs is scored, too.
    quick : Quick
        What a quick look changes.
    figure : str, optional
        The figure of the report that shows it, where it was made for one.
    is_quick : bool
        Whether this is that quick look.
    """

    name: str
    dataset: str
    protocol: str
    bits: tuple[int, ...]
    seeds: tuple[int, ...]
    methods: tuple[Method, ...]
    network: str | None = None
    image_size: int | None = None
    n_frozen: int | None = None
    weights: str | None = None
    examples: tuple[int, ...] = ()
    reranked: tuple[int, ...] = ()
    quick: Quick = USUAL_QUICK
    figure: str | None = None
    is_quick: bool = False

    def runs(self) -> Iterator[Run]:
        """Yield every run, one seed after the other."""
        for seed in self.seeds:
            for method in self.methods:
                for n_bits in self.bits:
                    yield Run(method.label, method.name, method.params, n_bits, seed)

    def rule(self) -> Protocol:
        """Return how the dataset is split."""
        whole, quick = get_protocol(self.protocol), self.quick
        if not self.is_quick or (quick.n_query, quick.n_train, quick.n_database) == (None, None, None):
            return whole
        return SubsampledProtocol.of(whole, quick.n_query, quick.n_train, quick.n_database)

    def folder(self, results: Path) -> Path:
        """Return where its results go; those of a quick look are kept apart."""
        return results / "quick" / self.name if self.is_quick else results / self.name

    def network_params(self) -> dict[str, Any]:
        """Return what the experiment says of the network of all of its methods."""
        return {name: value for name in NETWORK_PARAMS if (value := getattr(self, name)) is not None}

    def quicker(self) -> "Spec":
        """Return the quick look at it."""
        bits, seeds = self.quick.bits or self.bits, self.quick.seeds or self.seeds
        return replace(self, bits=bits, seeds=seeds, is_quick=True)

    def only(self, labels: Sequence[str]) -> "Spec":
        """Return it with some of its methods."""
        known = {method.label for method in self.methods}
        for label in labels:
            if label not in known:
                raise UnknownName("label", label, known)
        return replace(self, methods=tuple(method for method in self.methods if method.label in labels))

    def with_bits(self, bits: Sequence[int]) -> "Spec":
        """Return it with other code lengths."""
        return replace(self, bits=tuple(dict.fromkeys(bits)))

    def with_seeds(self, n_seeds: int) -> "Spec":
        """Return it with so many seeds: its own, and where these are too few, those that follow."""
        if n_seeds < 1:
            raise InvalidInput(f"At least one seed is needed; got {n_seeds}.")
        following = range(max(self.seeds) + 1, max(self.seeds) + 1 + n_seeds)
        return replace(self, seeds=(*self.seeds, *following)[:n_seeds])

    def with_network(self, network: str, image_size: int | None = None, weights: str | None = None) -> "Spec":
        """Return it with another network for every method; what was said of the old one no longer holds."""
        methods = tuple(replace(method, params=_without_network(method.params)) for method in self.methods)
        return replace(self, network=network, image_size=image_size, n_frozen=None, weights=weights, methods=methods)


def _without_network(params: dict[str, Any]) -> dict[str, Any]:
    """Return parameters without those of the network, also in the table of an extension."""
    return {
        name: _without_network(value) if name == "extension" and isinstance(value, dict) else value
        for name, value in params.items()
        if name not in NETWORK_PARAMS
    }
