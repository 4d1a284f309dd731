"""What an experiment is: dataset x protocol x methods x bits x seeds, in a TOML file."""

import tomllib
from collections.abc import Iterator
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from ddsh.errors import InvalidInput


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
    def file_name(self) -> str:
        """The name of its result."""
        return f"{self.label}-{self.n_bits}bits-seed{self.seed}.json"


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
    methods : tuple of (str, str, dict)
        Label, method and parameters of each line.
    """

    name: str
    dataset: str
    protocol: str
    bits: tuple[int, ...]
    seeds: tuple[int, ...]
    methods: tuple[tuple[str, str, dict[str, Any]], ...]

    def runs(self) -> Iterator[Run]:
        """Yield every run, one seed after the other."""
        for seed in self.seeds:
            for label, method, params in self.methods:
                for n_bits in self.bits:
                    yield Run(label, method, params, n_bits, seed)


def read_spec(path: Path) -> Spec:
    """Read an experiment from a TOML file."""
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise InvalidInput(f"{path} cannot be read as an experiment ({error}).") from error
    known = {field.name for field in fields(Spec)} - {"name"}
    unknown, missing = content.keys() - known, known - content.keys()
    if unknown or missing:
        raise InvalidInput(
            f"{path}: an experiment has {', '.join(sorted(known))}; missing: {', '.join(sorted(missing)) or 'none'},"
            f" unknown: {', '.join(sorted(unknown)) or 'none'}."
        )
    methods = tuple(_method(label, dict(given)) for label, given in content.pop("methods").items())
    bits, seeds = (tuple(int(value) for value in content.pop(name)) for name in ("bits", "seeds"))
    return Spec(name=path.stem, bits=bits, seeds=seeds, methods=methods, **content)


def _method(label: str, given: dict[str, Any]) -> tuple[str, str, dict[str, Any]]:
    return label, str(given.pop("method", label)), given
