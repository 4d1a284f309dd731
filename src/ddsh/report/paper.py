"""The figures that the paper prints, to be put beside ours."""

import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files


@dataclass(frozen=True)
class Paper:
    """What the paper prints.

    Parameters
    ----------
    names : mapping of str to str
        How it writes a label; in the order of its tables.
    map : mapping
        Mean average precision by dataset, label and code length.
    """

    names: Mapping[str, str]
    map: Mapping[tuple[str, str, int], float]

    def name(self, label: str) -> str:
        """Return how the paper writes a label; one that it does not know stays as it is."""
        return self.names.get(label, label)

    def in_order(self, labels: Iterable[str]) -> list[str]:
        """Return labels in the order of the paper's tables, the others after them by name."""
        places = {label: place for place, label in enumerate(self.names)}
        return sorted(set(labels), key=lambda label: (places.get(label, len(places)), label))

    def has_protocol(self, dataset: str, protocol: str) -> bool:
        """Say whether the paper ran this dataset by this protocol, so that scores can be compared."""
        return protocol == dataset and any(known == dataset for known, _, _ in self.map)


@cache
def read_paper() -> Paper:
    """Return the paper's figures, which are a file of this package."""
    content = tomllib.loads((files("ddsh.report") / "paper.toml").read_text(encoding="utf-8"))
    figures = {
        (dataset, label, n_bits): figure
        for dataset, lines in content["map"].items()
        for label, line in lines.items()
        for n_bits, figure in zip(content["bits"], line, strict=True)
    }
    return Paper(content["names"], figures)
