"""Search for images by their codes: a model, an index and a catalogue in one folder."""

import os
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import Any, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ddsh.codes import BinaryCodes
from ddsh.errors import ArtefactError, InvalidInput, UnknownName
from ddsh.images import Image, decode_image, read_image, thumbnail
from ddsh.index import get_index
from ddsh.index.base import Index
from ddsh.index.reranking import Outputs
from ddsh.search import folder as layout
from ddsh.search.adding import Adder, expand
from ddsh.search.catalogue import Catalogue, Entry, State
from ddsh.search.encoder import Encoder
from ddsh.search.files import ImageLike, absolute
from ddsh.search.folder import Manifest
from ddsh.search.hits import Hit, hits_of
from ddsh.search.live import AUTO, LiveIndex
from ddsh.search.looks import TOLERANCE, group
from ddsh.search.ranking import real_order
from ddsh.search.refreshing import Refresher
from ddsh.search.reports import AddReport, RefreshReport, SearchInfo

Progress: TypeAlias = Callable[[int, int], None]

RERANKED = 1000
"""How many of the nearest are put in order by their real outputs, or ten times as many as are asked for."""

WAIT_SECONDS = 5.0


@dataclass(frozen=True, eq=False)
class _Query:
    """What is looked for: a code, and the real outputs behind it or its signs."""

    code: BinaryCodes
    outputs: Outputs


class ImageSearch:
    """Finds images that are similar to an image.

    Make one with :meth:`create` or :meth:`open`. Any number of threads and processes may search in a folder while one
    of them changes it; every answer is that of one state of the catalogue.

    Parameters
    ----------
    folder : path
        The folder.
    manifest : Manifest
        What it says of itself.
    encoder : Encoder
        Its model.
    wait : float
        Seconds to wait for another writer before :class:`Busy` is raised.
    """

    def __init__(self, folder: Path, manifest: Manifest, encoder: Encoder, wait: float) -> None:
        self.folder = folder.absolute()
        self._manifest, self._encoder, self._wait = manifest, encoder, wait
        self._lock = Lock()
        self._live = LiveIndex(self.folder / layout.INDEX, manifest.index, manifest.n_bits)
        self._labelled: tuple[State | None, dict[str, NDArray[np.int64]]] = (None, {})
        self._catalogue = self._open_catalogue()

    @classmethod
    def create(
        cls,
        folder: str | os.PathLike[str],
        model: str | os.PathLike[str],
        *,
        index: str = AUTO,
        keep_outputs: bool = False,
        wait: float = WAIT_SECONDS,
    ) -> Self:
        """Make an empty search index.

        Parameters
        ----------
        folder : path
            A folder that is new or empty.
        model : path
            Folder of a trained model; it is copied, so that the index keeps working without it.
        index : str
            A name of :data:`ddsh.index.INDEXES`; all give the same answers. ``auto`` chooses.
        keep_outputs : bool
            Keep the model's real outputs (2 bytes a bit) for re-ranking.
        wait : float
            Seconds to wait for another writer.
        """
        target, source = Path(folder), Path(model)
        if index != AUTO:
            get_index(index)
        encoder = Encoder.load(source)
        manifest = Manifest(encoder.fingerprint, encoder.n_bits, encoder.preprocessing, index, keep_outputs)
        with layout.new_folder(target) as new:
            (new / layout.MODEL).mkdir()
            for name in ("model.json", "model.safetensors"):
                shutil.copyfile(source / name, new / layout.MODEL / name)
            for name in (layout.INDEX, layout.IMAGES):
                (new / name).mkdir()
            Catalogue.create(new / layout.CATALOGUE, encoder.fingerprint)
            manifest.write(new)
        return cls(target, manifest, encoder, wait)

    @classmethod
    def open(
        cls,
        folder: str | os.PathLike[str],
        *,
        model: str | os.PathLike[str] | None = None,
        wait: float = WAIT_SECONDS,
    ) -> Self:
        """Open a search index.

        Parameters
        ----------
        folder : path
            Its folder.
        model : path, optional
            Folder of the model that it must have been made with; another one is refused.
        wait : float
            Seconds to wait for another writer.
        """
        path = Path(folder)
        manifest = Manifest.read(path)
        encoder = Encoder.load(path / layout.MODEL)
        _check_same(path, "its own model folder", encoder.fingerprint, manifest.fingerprint)
        if model is not None:
            _check_same(path, str(model), Encoder.load(Path(model)).fingerprint, manifest.fingerprint)
        return cls(path, manifest, encoder, wait)

    def close(self) -> None:
        """Close the catalogue."""
        with self._lock:
            self._catalogue.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __len__(self) -> int:
        with self._lock:
            return self._catalogue.count()

    @property
    def n_bits(self) -> int:
        """Code length."""
        return self._manifest.n_bits

    @property
    def fingerprint(self) -> str:
        """Of the model and its preprocessing; codes compare only where it is equal."""
        return self._manifest.fingerprint

    def add(
        self,
        images: ImageLike | Iterable[ImageLike],
        *,
        labels: Sequence[str | Sequence[str] | None] | None = None,
        metadata: Sequence[Mapping[str, Any] | None] | None = None,
        root: str | os.PathLike[str] | None = None,
        on_progress: Progress | None = None,
    ) -> AddReport:
        """Add images; those that are there already are not coded again, and broken ones are listed.

        Every hundred or so images are safe as soon as they are done: after a cut, add the same again to go on.

        Parameters
        ----------
        images : path, bytes, array, or several
            Image files; folders, of which all images at any depth are taken; contents of files; or uint8 arrays. What
            has no file of its own is kept as one in the index's folder.
        labels : sequence, optional
            For each image a label, several or None.
        metadata : sequence of dict, optional
            For each image whatever JSON is to be kept with it, or None.
        root : path, optional
            A folder that all of these files are below: where :meth:`refresh` looks for those that were moved. Folders
            among `images` are remembered anyway.
        on_progress : callable, optional
            Told how many images were looked at, and how many there are.

        Returns
        -------
        AddReport
            What became of each.
        """
        given, roots = expand(images, labels, metadata)
        roots += [] if root is None else [absolute(root)]
        with self._writer() as catalogue:
            with catalogue.writing():
                for folder in roots:
                    catalogue.add_root(folder)
            return self._adder(catalogue).add(given, on_progress)

    def remove(self, ids: Iterable[int]) -> int:
        """Remove images by their ids, all of them or, if one is not there, none; return how many. Files stay."""
        chosen = sorted({_as_id(number) for number in ids})
        with self._writer() as catalogue:
            entries = catalogue.entries(chosen)
            if len(entries) < len(chosen):
                unknown = sorted(set(chosen) - {entry.id for entry in entries})
                raise InvalidInput(f"{len(unknown)} of {len(chosen)} ids are not in the index, such as {unknown[0]}.")
            with catalogue.writing():
                catalogue.remove(chosen)
            self._remove_kept(entries)
        return len(chosen)

    def refresh(self, *, on_progress: Progress | None = None) -> RefreshReport:
        """Look at every file: code changed ones again, follow moved ones, and remove those that are gone.

        Files are followed below the folders that were added. New files are not added; :meth:`add` does that.
        """
        with self._writer() as catalogue:
            return Refresher(catalogue, self._adder(catalogue), self.folder).refresh(on_progress)

    def query(
        self,
        image: ImageLike | int,
        k: int = 20,
        *,
        radius: int | None = None,
        label: str | None = None,
        rerank: bool = False,
    ) -> list[Hit]:
        """Return the images nearest to an image, by Hamming distance and then by id.

        Parameters
        ----------
        image : path, bytes, array or int
            An image, or the id of one in the index, which then finds itself, too.
        k : int
            How many to return at most.
        radius : int, optional
            Return only images whose codes differ in at most so many bits.
        label : str, optional
            Return only images that carry this label.
        rerank : bool
            Put the nearest in the order of their real outputs, which tell images at equal distance apart: those of the
            query against those that are kept, or against the codes where none are.

        Returns
        -------
        list of Hit
            Fewer than `k` where there are no more.
        """
        if not _is_id(k) or k < 1:
            raise InvalidInput(f"k must be an integer, 1 or more; got {k!r}.")
        query = None if _is_id(image) else self._encode(_decode(image))
        with self._lock, self._catalogue.reading():
            asked = query or self._query_of(_as_id(image))
            index, allowed = self._live.follow(self._catalogue), self._allowed(label)
            n_wanted = max(RERANKED, 10 * k) if rerank else k
            ids, distances = _nearest(index, asked.code, n_wanted, radius, allowed)
            if rerank:
                order = real_order(asked.outputs, ids, index.codes_of(ids), self._catalogue.outputs(ids))
                ids, distances = ids[order], distances[order]
            entries, codes = self._catalogue.entries(ids[:k].tolist()), index.codes_of(ids[:k])
        return hits_of(entries, distances, codes, asked.code)

    def duplicates(self, radius: int = 2, *, tolerance: float = TOLERANCE) -> list[tuple[Entry, ...]]:
        """Return groups of near-identical images: copies, also resized or saved anew.

        Parameters
        ----------
        radius : int
            In how many bits the codes of a pair may differ.
        tolerance : float
            By how many grey levels (root mean square) tiny copies of a pair may differ; codes that were learned from
            labels do not tell images of one class apart, so they are not enough.

        Returns
        -------
        list of tuple of Entry
            Each group by id, groups by their first id.
        """
        with self._lock:
            rows = self._catalogue.looks()
        packed = np.frombuffer(b"".join(code for _, code, _ in rows), np.uint8).reshape(len(rows), -1 if rows else 0)
        codes = (
            BinaryCodes(packed, self.n_bits) if rows else BinaryCodes.from_bits(np.empty((0, self.n_bits), np.uint8))
        )
        groups = group(codes, [look for _, _, look in rows], radius, tolerance)
        found = (self.entries(rows[row][0] for row in members) for members in groups)
        return [tuple(entries) for entries in found if len(entries) > 1]

    def info(self) -> SearchInfo:
        """Return facts about the index."""
        with self._lock, self._catalogue.reading():
            n_images, state, labels = self._catalogue.count(), self._catalogue.state(), self._catalogue.label_counts()
            n_contents, n_codes = self._catalogue.count_contents()
        return SearchInfo(
            n_images=n_images,
            n_contents=n_contents,
            n_codes=n_codes,
            n_bits=self.n_bits,
            n_bytes=n_images * ((self.n_bits + 7) // 8),
            labels=labels,
            method=self._encoder.method,
            fingerprint=self.fingerprint,
            preprocessing=self._manifest.preprocessing,
            index=self._live.kind,
            keeps_outputs=self._manifest.keeps_outputs,
            generation=state.generation,
        )

    def entries(self, ids: Iterable[int]) -> list[Entry]:
        """Return what is known of images, in the order of the ids; ids that are not there are passed over."""
        with self._lock:
            return self._catalogue.entries(ids)

    def entry(self, image: int) -> Entry:
        """Return what is known of one image, or say that it is not there."""
        found = self.entries([_as_id(image)])
        if not found:
            raise InvalidInput(f"No image has the id {image}.")
        return found[0]

    def ids(self, after: int = -1, limit: int = 100) -> list[int]:
        """Return the next ids after one, ascending: a page of all images."""
        with self._lock:
            return self._catalogue.ids(after, limit)

    def id_of(self, path: str | os.PathLike[str]) -> int | None:
        """Return the id of the image at a path, if there is one."""
        with self._lock:
            row = self._catalogue.file_at(absolute(path))
        return None if row is None else row.id

    def thumbnail(self, image: int, side: int = 256) -> bytes:
        """Return a small JPEG of an image in the index."""
        return thumbnail(self.entry(image).path, side)

    def _open_catalogue(self) -> Catalogue:
        catalogue = Catalogue(self.folder / layout.CATALOGUE)
        try:
            _check_same(self.folder, "its catalogue", catalogue.fingerprint(), self.fingerprint)
        except ArtefactError:
            catalogue.close()
            raise
        return catalogue

    @contextmanager
    def _writer(self) -> Iterator[Catalogue]:
        """Yield a catalogue to change, as the only writer; the saved index follows in the end."""
        with layout.only_writer(self.folder, self._wait), self._open_catalogue() as catalogue:
            yield catalogue
            # The index files are derived: if this is cut short, the next opening makes them from the catalogue.
            with self._lock:
                self._live.save_if_behind(catalogue)

    def _adder(self, catalogue: Catalogue) -> Adder:
        return Adder(catalogue, self._encoder, self.folder, keeps_outputs=self._manifest.keeps_outputs)

    def _remove_kept(self, entries: Iterable[Entry]) -> None:
        """Remove the files of images that were kept in the folder."""
        for entry in entries:
            if Path(entry.path).parent == self.folder / layout.IMAGES:
                Path(entry.path).unlink(missing_ok=True)

    def _encode(self, image: Image) -> _Query:
        outputs = self._encoder.outputs([self._encoder.prepare(image)])
        return _Query(BinaryCodes.from_outputs(outputs), outputs[0])

    def _query_of(self, image: int) -> _Query:
        row = self._catalogue.code_of(image)
        if row is None:
            raise InvalidInput(f"No image has the id {image}.")
        code = BinaryCodes(np.frombuffer(row[0], np.uint8)[None], self.n_bits)
        return _Query(code, code.signs()[0].astype(np.float32) if row[1] is None else np.frombuffer(row[1], "<f2"))

    def _allowed(self, label: str | None) -> NDArray[np.int64] | None:
        """Return the ids that carry a label, remembered while nothing changes."""
        if label is None:
            return None
        if self._labelled[0] != self._live.state:
            self._labelled = (self._live.state, {})
        known = self._labelled[1]
        if label not in known:
            ids = self._catalogue.ids_labelled(label)
            if not len(ids):
                raise UnknownName("label", label, self._catalogue.label_counts())
            known[label] = ids
        return known[label]


def _nearest(
    index: Index, code: BinaryCodes, k: int, radius: int | None, allowed: NDArray[np.int64] | None
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    hits = index.search(code, k, allowed=allowed) if radius is None else index.within(code, radius, allowed=allowed)
    return hits.of(0)


def _decode(image: ImageLike | int) -> Image:
    if isinstance(image, bytes):
        return decode_image(image)
    if isinstance(image, str | os.PathLike):
        return read_image(image)
    if not isinstance(image, np.ndarray) or image.dtype != np.uint8 or image.ndim != 3 or image.shape[2] not in (1, 3):
        raise InvalidInput("A query is a path, the bytes of an image file, an id, or uint8 (height, width, 1 or 3).")
    return image


def _is_id(image: object) -> bool:
    return isinstance(image, int | np.integer) and not isinstance(image, bool)


def _as_id(number: object) -> int:
    if not _is_id(number):
        raise InvalidInput(f"An id is an integer; got {number!r}.")
    return int(number)  # type: ignore[call-overload, no-any-return]


def _check_same(folder: Path, what: str, found: str, expected: str) -> None:
    if found != expected:
        raise ArtefactError(
            f"{folder} was made with another model (fingerprint {expected[:12]}) than {what} ({found[:12]}); codes of"
            " different models do not compare: use that model or make a new index."
        )
