"""Binary codes: packed bits, signs, and Hamming distances."""

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ddsh.errors import ArtefactError, InvalidInput
from ddsh.storage import read_npz, write_npz

__all__ = ["FORMAT_VERSION", "MAX_BITS", "BinaryCodes", "CodePair"]

MAX_BITS = 1024
"""Maximum code length."""

FORMAT_VERSION = 1
"""Version of the files that :meth:`BinaryCodes.save` writes."""

_BLOCK_BYTES = 1 << 22


@dataclass(frozen=True, eq=False)
class BinaryCodes:
    """Binary codes of one length, packed eight bits to a byte.

    Bit ``k`` of a code is bit ``k % 8`` (least significant first) of byte ``k // 8``; unused bits of the last byte are
    zero.

    Parameters
    ----------
    packed : ndarray of uint8, shape (n, ceil(n_bits / 8))
        The packed codes.
    n_bits : int
        The code length, 1 to 1024.
    """

    packed: NDArray[np.uint8]
    n_bits: int

    def __post_init__(self) -> None:
        _check_length(self.n_bits)
        width = (self.n_bits + 7) // 8
        if self.packed.dtype != np.uint8 or self.packed.ndim != 2 or self.packed.shape[1] != width:
            raise InvalidInput(
                f"Packed codes of {self.n_bits} bits are uint8 of shape (n, {width}); "
                f"got {self.packed.dtype} of shape {self.packed.shape}."
            )
        if self.n_bits % 8 and np.any(self.packed[:, -1] >> (self.n_bits % 8)):
            raise InvalidInput(f"The bits after bit {self.n_bits} of the last byte must be zero.")

    @classmethod
    def from_bits(cls, bits: ArrayLike) -> Self:
        """Pack a matrix of zeros and ones, shape (n, n_bits)."""
        matrix = _matrix(bits, "bits")
        if not np.isin(matrix, (0, 1)).all():
            raise InvalidInput("Bits must be 0 or 1; use from_signs for -1/+1 and from_outputs for reals.")
        return cls._pack(matrix != 0)

    @classmethod
    def from_signs(cls, signs: ArrayLike) -> Self:
        """Pack a matrix of -1 and +1, shape (n, n_bits); +1 becomes bit 1."""
        matrix = _matrix(signs, "signs")
        if not np.isin(matrix, (-1, 1)).all():
            raise InvalidInput("Signs must be -1 or +1; use from_bits for 0/1 and from_outputs for reals.")
        return cls._pack(matrix > 0)

    @classmethod
    def from_outputs(cls, outputs: ArrayLike) -> Self:
        """Pack real outputs, shape (n, n_bits): a bit is 1 if the output is above zero, else 0."""
        matrix = _matrix(outputs, "outputs")
        if np.isnan(matrix).any():
            raise InvalidInput("Outputs hold NaN, which has no sign; check the input of the hash function.")
        return cls._pack(matrix > 0)

    @classmethod
    def stack(cls, parts: Sequence[Self]) -> Self:
        """Concatenate several sets of codes."""
        for part in parts[1:]:
            parts[0].check_same_length(part)
        return cls(np.concatenate([part.packed for part in parts]), parts[0].n_bits)

    @classmethod
    def _pack(cls, ones: NDArray[np.bool_]) -> Self:
        _check_length(ones.shape[1])
        return cls(np.packbits(ones, axis=1, bitorder="little"), ones.shape[1])

    def __len__(self) -> int:
        return len(self.packed)

    def __getitem__(self, rows: slice | NDArray[np.integer[Any]] | NDArray[np.bool_] | list[int]) -> Self:
        return type(self)(self.packed[rows], self.n_bits)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, BinaryCodes):
            return NotImplemented
        return self.n_bits == other.n_bits and np.array_equal(self.packed, other.packed)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"BinaryCodes({len(self):,} codes of {self.n_bits} bits)"

    def bits(self) -> NDArray[np.uint8]:
        """Return the codes as a matrix of zeros and ones, shape (n, n_bits)."""
        return np.unpackbits(self.packed, axis=1, count=self.n_bits, bitorder="little")

    def first(self, n_bits: int) -> Self:
        """Return the first bits of each code, for codes whose prefixes are codes."""
        if not 1 <= n_bits <= self.n_bits:
            raise InvalidInput(f"Codes of {self.n_bits} bits have 1 to {self.n_bits} first bits; got {n_bits}.")
        return type(self).from_bits(self.bits()[:, :n_bits])

    def signs(self) -> NDArray[np.int8]:
        """Return the codes as a matrix of -1 and +1, shape (n, n_bits)."""
        return (2 * self.bits().astype(np.int8) - 1).astype(np.int8)

    def words(self) -> NDArray[np.uint64]:
        """Return the codes as 64-bit words, shape (n_words, n): one contiguous row per word."""
        n_words = (self.n_bits + 63) // 64
        padded = np.zeros((len(self), 8 * n_words), np.uint8)
        padded[:, : self.packed.shape[1]] = self.packed
        return np.ascontiguousarray(padded.view("<u8").T, dtype=np.uint64)

    def hamming(self, other: "BinaryCodes") -> NDArray[np.unsignedinteger[Any]]:
        """Return all Hamming distances to `other`, shape (len(self), len(other)).

        Temporary memory is bounded; the result takes one byte per pair (two above 255 bits). Use
        :meth:`hamming_blocks` if that is too much.
        """
        out = np.empty((len(self), len(other)), self.distance_dtype)
        for rows, block in self.hamming_blocks(other):
            out[rows] = block
        return out

    def hamming_blocks(
        self, other: "BinaryCodes", block_bytes: int = _BLOCK_BYTES
    ) -> Iterator[tuple[slice, NDArray[np.unsignedinteger[Any]]]]:
        """Yield ``(rows, distances)`` in blocks of rows of about `block_bytes`.

        The distances are overwritten by the next block: copy them to keep them.
        """
        self.check_same_length(other)
        step = max(1, min(len(self), block_bytes // max(1, 10 * len(other))))
        mine, theirs = self.words(), other.words()
        mixed = np.empty((step, len(other)), np.uint64)
        counts = np.empty((step, len(other)), np.uint8)
        distances = np.empty((step, len(other)), self.distance_dtype)
        for start in range(0, len(self), step):
            rows = slice(start, min(start + step, len(self)))
            used = slice(0, rows.stop - start)
            for word, (my_word, their_word) in enumerate(zip(mine[:, rows], theirs, strict=True)):
                np.bitwise_xor(my_word[:, None], their_word, out=mixed[used])
                np.bitwise_count(mixed[used], out=counts[used] if word else distances[used])
                if word:
                    distances[used] += counts[used]
            yield rows, distances[used]

    @property
    def distance_dtype(self) -> type[np.uint8] | type[np.uint16]:
        """The smallest unsigned integer type for all distances."""
        return np.uint8 if self.n_bits <= 255 else np.uint16

    def check_same_length(self, other: "BinaryCodes") -> None:
        """Raise :class:`~ddsh.errors.InvalidInput` unless `other` has codes of the same length."""
        if self.n_bits != other.n_bits:
            raise InvalidInput(f"Codes of {self.n_bits} and of {other.n_bits} bits cannot be compared.")

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the codes to an ``.npz`` file (no pickle), atomically."""
        write_npz(path, self.to_arrays())

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Read codes that :meth:`save` wrote."""
        return cls.from_arrays(read_npz(path), path)

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """Return the arrays of the ``.npz`` file that :meth:`save` writes."""
        return {
            "version": np.array(FORMAT_VERSION),
            "n_bits": np.array(self.n_bits),
            "packed": self.packed,
        }

    @classmethod
    def from_arrays(cls, arrays: dict[str, NDArray[Any]], path: str | os.PathLike[str]) -> Self:
        """Create codes from the arrays of an ``.npz`` file; `path` is only used in messages."""
        missing = {"version", "n_bits", "packed"} - arrays.keys()
        if missing:
            raise ArtefactError(f"{path} holds no ddsh codes: {', '.join(sorted(missing))} missing.")
        if arrays["version"].tolist() != FORMAT_VERSION:
            raise ArtefactError(f"{path} has version {arrays['version']}; this ddsh reads version {FORMAT_VERSION}.")
        try:
            return cls(arrays["packed"], int(arrays["n_bits"]))
        except (InvalidInput, TypeError, ValueError) as error:
            raise ArtefactError(f"{path} holds damaged codes: {error}") from error


@dataclass(frozen=True, eq=False)
class CodePair:
    """Label bits and look bits of the same images; a model may have only one of them.

    Parameters
    ----------
    label : BinaryCodes or None
        What the images show, learned from labels.
    look : BinaryCodes or None
        What they look like, learned without labels.
    """

    label: BinaryCodes | None
    look: BinaryCodes | None

    def __post_init__(self) -> None:
        if self.label is None and self.look is None:
            raise InvalidInput("A pair of codes has label bits, look bits or both.")
        if self.label is not None and self.look is not None and len(self.label) != len(self.look):
            raise InvalidInput(f"{len(self.label)} codes of label bits but {len(self.look)} of look bits.")

    @classmethod
    def stack(cls, parts: Sequence[Self]) -> Self:
        """Concatenate several pairs."""
        label = [part.label for part in parts if part.label is not None]
        look = [part.look for part in parts if part.look is not None]
        return cls(BinaryCodes.stack(label) if label else None, BinaryCodes.stack(look) if look else None)

    @classmethod
    def from_packed(cls, packed: NDArray[np.uint8], label_bits: int, look_bits: int) -> Self:
        """Split rows of bytes: those of the label bits, then those of the look bits."""
        width = (label_bits + 7) // 8
        return cls(
            BinaryCodes(np.ascontiguousarray(packed[:, :width]), label_bits) if label_bits else None,
            BinaryCodes(np.ascontiguousarray(packed[:, width:]), look_bits) if look_bits else None,
        )

    @property
    def main(self) -> BinaryCodes:
        """The label bits, or the look bits if there are no others."""
        code = self.look if self.label is None else self.label
        assert code is not None, "one of them is given"
        return code

    def __len__(self) -> int:
        return len(self.main)

    def __getitem__(self, rows: slice | NDArray[np.integer[Any]] | NDArray[np.bool_] | list[int]) -> Self:
        label = None if self.label is None else self.label[rows]
        return type(self)(label, None if self.look is None else self.look[rows])

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, CodePair):
            return NotImplemented
        return self.label == other.label and self.look == other.look

    __hash__ = None  # type: ignore[assignment]


def _check_length(n_bits: int) -> None:
    if not 1 <= n_bits <= MAX_BITS:
        raise InvalidInput(f"A code has 1 to {MAX_BITS} bits; got {n_bits}.")


def _matrix(values: ArrayLike, what: str) -> NDArray[Any]:
    """Return `values` as a numeric matrix, or raise."""
    matrix = np.asarray(values)
    if matrix.ndim != 2 or matrix.dtype.kind not in "biuf":
        raise InvalidInput(
            f"{what.capitalize()} must be a numeric matrix (n, n_bits); got {matrix.dtype} of shape {matrix.shape}."
        )
    return matrix
