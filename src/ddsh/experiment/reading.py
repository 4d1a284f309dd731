"""Experiments in TOML files."""

import re
import tomllib
from collections.abc import Mapping
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

from ddsh.codes import MAX_BITS
from ddsh.errors import InvalidInput, UnknownName
from ddsh.experiment.spec import Method, Quick, Spec

MAX_BYTES = 1_000_000
"""Larger files are no experiments."""

_LABEL = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]*")
_NOT_IN_FILES = {"name", "figure", "is_quick"}
_NEEDED = {"dataset", "protocol", "bits", "seeds", "methods"}
_OF_A_PART = {"of", "figure", "labels", "bits"}


def find_spec(given: str, folder: Path) -> Path:
    """Return the file of an experiment.

    Parameters
    ----------
    given : str
        A TOML file, or the name of one in `folder` without its ending.
    folder : path
        Where experiments are kept.
    """
    path = Path(given)
    if path.suffix == ".toml" or path.is_file():
        return path
    known = {found.stem: found for found in folder.glob("*.toml")}
    if not known:
        raise InvalidInput(f"There are no experiments in {folder}, so that {given!r} is unknown; give a TOML file.")
    if given not in known:
        raise UnknownName("experiment", given, known)
    return known[given]


def read_spec(path: Path) -> Spec:
    """Read an experiment from a TOML file; whatever does not fit is refused with a reason.

    A file with ``of`` is a part of another experiment, such as a figure that needs some of a table's runs: it has the
    other one's name, and its results are among the other one's.
    """
    content = _read_toml(path)
    return _part(path, content) if "of" in content else _whole(path, content)


def _part(path: Path, content: Mapping[str, Any]) -> Spec:
    if unknown := content.keys() - _OF_A_PART:
        raise InvalidInput(f"{path}: a part of an experiment has {', '.join(sorted(_OF_A_PART))}; got {min(unknown)}.")
    try:
        whole = path.parent / f"{_text('of', content['of'])}.toml"
        spec = _whole(whole, _read_toml(whole))
        spec = replace(spec, figure=_text("figure", content["figure"])) if "figure" in content else spec
        spec = _with_some_bits(spec, content["bits"]) if "bits" in content else spec
        return spec.only(_texts("labels", content["labels"])) if "labels" in content else spec
    except (InvalidInput, UnknownName) as error:
        raise InvalidInput(f"{path}: {error}") from error


def _with_some_bits(spec: Spec, value: object) -> Spec:
    lengths = _bits("bits", value)
    if unknown := set(lengths) - set(spec.bits):
        raise InvalidInput(f"bits: {spec.name} has {', '.join(map(str, spec.bits))}; got {min(unknown)}.")
    return replace(spec, bits=lengths, quick=replace(spec.quick, bits=None))


def _whole(path: Path, content: Mapping[str, Any]) -> Spec:
    known = {field.name for field in fields(Spec)} - _NOT_IN_FILES
    unknown, missing = content.keys() - known, _NEEDED - content.keys()
    if unknown or missing:
        raise InvalidInput(
            f"{path}: an experiment has {', '.join(sorted(known))}; missing: {', '.join(sorted(missing)) or 'none'},"
            f" unknown: {', '.join(sorted(unknown)) or 'none'}."
        )
    try:
        return Spec(name=path.stem, **{name: _READERS[name](name, value) for name, value in content.items()})
    except InvalidInput as error:
        raise InvalidInput(f"{path}: {error}") from error


def _read_toml(path: Path) -> dict[str, Any]:
    try:
        if path.stat().st_size > MAX_BYTES:
            raise InvalidInput(f"{path} has more than {MAX_BYTES:,} bytes, which no experiment has.")
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError, RecursionError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise InvalidInput(f"{path} cannot be read as an experiment ({reason}).") from error


def _text(name: str, value: object) -> str:
    if not isinstance(value, str) or not value:
        raise InvalidInput(f"{name} must be a text; got {value!r}.")
    return value


def _texts(name: str, value: object) -> list[str]:
    if not isinstance(value, list) or not value:
        raise InvalidInput(f"{name} must be a list of texts; got {value!r}.")
    return [_text(name, one) for one in value]


def _count(name: str, value: object, least: int = 1) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise InvalidInput(f"{name} must be a whole number, {least} or more; got {value!r}.")
    return value


def _n_frozen(name: str, value: object) -> int:
    return _count(name, value, least=0)


def _bits(name: str, value: object) -> tuple[int, ...]:
    lengths = _counts(name, value, least=1)
    if max(lengths) > MAX_BITS:
        raise InvalidInput(f"{name}: a code has 1 to {MAX_BITS} bits; got {max(lengths)}.")
    return lengths


def _seeds(name: str, value: object) -> tuple[int, ...]:
    return _counts(name, value, least=0)


def _counts(name: str, value: object, least: int) -> tuple[int, ...]:
    if not isinstance(value, list) or not value:
        raise InvalidInput(f"{name} must be a list of whole numbers; got {value!r}.")
    counts = tuple(_count(name, one, least) for one in value)
    if len(set(counts)) < len(counts):
        raise InvalidInput(f"{name} must not have a number twice; got {value!r}.")
    return counts


def _table(name: str, value: object) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise InvalidInput(f"{name} must be a table; got {value!r}.")
    return value


def _methods(name: str, value: object) -> tuple[Method, ...]:
    methods = tuple(_method(label, _table(f"{name}.{label}", given)) for label, given in _table(name, value).items())
    if not methods:
        raise InvalidInput("methods must have at least one method.")
    return methods


def _method(label: str, given: Mapping[str, Any]) -> Method:
    if not _LABEL.fullmatch(label):
        raise InvalidInput(f"methods: a label names a file: letters, digits and . _ + - only; got {label!r}.")
    params = {name: value for name, value in given.items() if name != "method"}
    return Method(label, _text(f"methods.{label}.method", given.get("method", label)), params)


def _quick(name: str, value: object) -> Quick:
    given = _table(name, value)
    readers: Mapping[str, Any] = {"bits": _bits, "seeds": _seeds}
    known = {field.name for field in fields(Quick)}
    if unknown := given.keys() - known:
        raise InvalidInput(f"{name} has {', '.join(sorted(known))}; unknown: {', '.join(sorted(unknown))}.")
    return Quick(**{key: readers.get(key, _count)(f"{name}.{key}", one) for key, one in given.items()})


_READERS: Mapping[str, Any] = {
    "dataset": _text,
    "protocol": _text,
    "bits": _bits,
    "seeds": _seeds,
    "methods": _methods,
    "network": _text,
    "image_size": _count,
    "n_frozen": _n_frozen,
    "weights": _text,
    "examples": _bits,
    "reranked": _bits,
    "quick": _quick,
}
