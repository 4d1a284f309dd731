"""Scores that the paper prints, to compare with."""

import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

__all__ = ["Paper", "read_paper"]


@dataclass(frozen=True)
class Paper:
    """Names and scores of the paper's tables.

    Parameters
    ----------
    names : mapping of str to str
        The paper's spelling of each label, in the order of its tables.
    map : mapping
        Mean average precision by dataset, label and code length.
    """

    names: Mapping[str, str]
    map: Mapping[tuple[str, str, int], float]

    def name(self, label: str) -> str:
        """Return the paper's spelling of a label; other labels are returned unchanged."""
        return self.names.get(label, label)

    def in_order(self, labels: Iterable[str]) -> list[str]:
        """Return labels in the order of the paper's tables, then the others by name."""
        places = {label: place for place, label in enumerate(self.names)}
        return sorted(set(labels), key=lambda label: (places.get(label, len(places)), label))

    def has_protocol(self, dataset: str, protocol: str) -> bool:
        """Return whether the paper has scores of this dataset with this protocol."""
        return protocol == dataset and any(known == dataset for known, _, _ in self.map)


@cache
def read_paper() -> Paper:
    """Return the paper's scores, from ``paper.toml`` of this package."""
    content = tomllib.loads((files("ddsh.report") / "paper.toml").read_text(encoding="utf-8"))
    scores = {
        (dataset, label, n_bits): score
        for dataset, rows in content["map"].items()
        for label, row in rows.items()
        for n_bits, score in zip(content["bits"], row, strict=True)
    }
    return Paper(content["names"], scores)
