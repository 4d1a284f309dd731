"""Image search: find the images of a store that are similar to an image."""

import hashlib
import os
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Self

import numpy as np

from ddsh.codes import CodePair
from ddsh.errors import BrokenImage, InvalidInput
from ddsh.images import ImageLike, as_image, check_file, thumbnail
from ddsh.index import get_index
from ddsh.index.pairs import By, PairDistance, check_by
from ddsh.model import Model
from ddsh.search.duplicates import TOLERANCE, group_duplicates
from ddsh.search.indexer import Indexer, Progress, absolute_path, list_images
from ddsh.search.local import LocalStore
from ddsh.search.results import AddReport, Hit, QueryResult, RefreshReport, SearchInfo
from ddsh.search.store import AUTO, Entry, Neighbours, SearchManifest, Store, check_fingerprint

__all__ = ["WAIT_SECONDS", "ImageSearch"]

WAIT_SECONDS = 5.0
"""Default time to wait for another writer."""


class ImageSearch:
    """Finds images that are similar to an image: a model and a store.

    Use :meth:`create` or :meth:`open` for an index in a local folder. Any number of threads and processes may search
    while one of them makes changes; every result shows one state of the store.

    Parameters
    ----------
    store : Store
        The indexed images and their codes.
    model : Model
        The model that computed the codes.
    """

    def __init__(self, store: Store, model: Model) -> None:
        check_fingerprint(store.folder, "its own model folder", model.fingerprint, store.manifest.fingerprint)
        self._store, self._model = store, model

    @classmethod
    def create(
        cls,
        folder: str | os.PathLike[str],
        model: str | os.PathLike[str] | Model,
        *,
        index: str = AUTO,
        wait: float = WAIT_SECONDS,
    ) -> Self:
        """Create an empty index in a local folder.

        Parameters
        ----------
        folder : path
            A new or empty folder.
        model : path or Model
            A trained model or its folder; a copy is saved in the folder of the index.
        index : str
            A name of :data:`ddsh.index.INDEXES`; all return the same results. ``auto`` chooses one.
        wait : float
            Seconds to wait for another writer.
        """
        if index != AUTO:
            get_index(index)
        loaded = model if isinstance(model, Model) else Model.load(model)
        manifest = SearchManifest(
            fingerprint=loaded.fingerprint,
            n_bits=loaded.n_bits,
            look_bits=loaded.look_bits,
            preprocessing=loaded.preprocessing,
            index=index,
        )
        return cls(LocalStore.create(folder, manifest, loaded.save, wait), loaded)

    @classmethod
    def open(
        cls,
        folder: str | os.PathLike[str],
        *,
        model: str | os.PathLike[str] | Model | None = None,
        wait: float = WAIT_SECONDS,
        device: str = "auto",
    ) -> Self:
        """Open an index in a local folder.

        Parameters
        ----------
        folder : path
            Its folder.
        model : path or Model, optional
            The model that it must have been created with; another one is refused. Look bits may have been added to it.
        wait : float
            Seconds to wait for another writer.
        device : str
            Where the network of the model runs: ``auto``, ``cpu``, ``cuda`` or ``mps``.
        """
        store = LocalStore(folder, wait)
        try:
            own = Model.load(store.model_folder, device=device)
            if model is not None:
                given = model if isinstance(model, Model) else Model.load(model)
                expected = own.fingerprint if given.look_bits else own.label_fingerprint
                check_fingerprint(store.folder, str(model), given.fingerprint, expected)
            return cls(store, own)
        except BaseException:
            store.close()
            raise

    def close(self) -> None:
        """Close the store."""
        self._store.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __len__(self) -> int:
        return self._store.count()

    def __repr__(self) -> str:
        bits = " + ".join(str(number) for number in (self.n_bits, self.look_bits) if number)
        return f"ImageSearch({len(self)} images, {bits} bits, {str(self.folder)!r})"

    @property
    def folder(self) -> Path:
        """Folder of the index."""
        return self._store.folder

    @property
    def n_bits(self) -> int:
        """Number of label bits; 0 if the model was made without labels."""
        return self._store.manifest.n_bits

    @property
    def look_bits(self) -> int:
        """Number of look bits; 0 if the model has none."""
        return self._store.manifest.look_bits

    @property
    def fingerprint(self) -> str:
        """Fingerprint of the model and its preprocessing; only codes with equal fingerprints compare."""
        return self._store.manifest.fingerprint

    def add(
        self,
        images: ImageLike | Iterable[ImageLike],
        *,
        labels: Sequence[str | Sequence[str] | None] | None = None,
        metadata: Sequence[Mapping[str, Any] | None] | None = None,
        root: str | os.PathLike[str] | None = None,
        on_progress: Progress | None = None,
    ) -> AddReport:
        """Add images. Indexed images are not encoded again, broken ones are reported.

        Images are written in batches of 128. After an interruption, add the same images again to continue.

        Parameters
        ----------
        images : path, bytes, array, Pillow image, or several
            Image files; folders, whose images at any depth are added; contents of image files; uint8 arrays; Pillow
            images. Images without a file are kept in the folder of the index.
        labels : sequence, optional
            For each image a label, several labels, or None.
        metadata : sequence of dict, optional
            For each image any JSON data, or None.
        root : path, optional
            A common parent folder of the files, in which :meth:`refresh` looks for moved files. Folders in `images`
            are recorded anyway.
        on_progress : callable, optional
            Called with the number of images read and their total.
        """
        items, roots = list_images(images, labels, metadata)
        if root is not None:
            roots.append(absolute_path(root))
        with self._store.write() as writer:
            with writer.transaction():
                for folder in roots:
                    writer.add_root(folder)
            return Indexer(writer, self._model).add(items, on_progress)

    def remove(self, ids: Iterable[int]) -> int:
        """Remove images by id and return their number. Their files stay.

        Raises
        ------
        InvalidInput
            If an id is unknown; then nothing is removed.
        """
        chosen = {_as_id(number) for number in ids}
        with self._store.write() as writer, writer.transaction():
            writer.remove(chosen)
        return len(chosen)

    def refresh(self, *, on_progress: Progress | None = None) -> RefreshReport:
        """Encode changed files again, follow moved files, and remove images whose file is gone.

        Moved files are searched below the folders that were added. New files are not added; use :meth:`add`.
        """
        with self._store.write() as writer:
            return Indexer(writer, self._model).refresh(on_progress)

    def query(
        self,
        image: ImageLike | int,
        k: int = 20,
        *,
        by: By = "both",
        radius: int | None = None,
        label: str | None = None,
        sha256: str | None = None,
    ) -> QueryResult:
        """Return the images most similar to an image.

        The image itself comes first, if it is indexed, and then copies of its file.

        Parameters
        ----------
        image : path, bytes, array, Pillow image or int
            An image, or the id of an indexed one, which then is among the results.
        k : int
            Largest number of images to return.
        by : {"both", "label", "look"}
            Order by the distance of both codes (:class:`ddsh.index.pairs.PairDistance`), by label bits and then by
            look bits, or by look bits and then by label bits. ``both`` uses the only code there is, if there is one.
        radius : int, optional
            Largest distance to return, in that order.
        label : str, optional
            Return only images with this label.
        sha256 : str, optional
            Checksum of the image's file, for an image that was decoded already; known for a path and for bytes.

        Returns
        -------
        QueryResult
            A sequence of :class:`Hit`, with the code of the query.
        """
        if not _is_id(k) or k < 1:
            raise InvalidInput(f"k must be an integer, 1 or more; got {k!r}.")
        order = check_by(by, self.n_bits, self.look_bits)
        own = _as_id(image) if _is_id(image) else None
        if own is None and sha256 is None:
            sha256 = _checksum(image)
        code = None
        if own is None and not (sha256 and self._store.ids_with(bytes.fromhex(sha256))):
            code = self._model.encode_pair([self._model.prepare(as_image(image))])
        with self._store.snapshot():
            if own is not None:
                sha256 = self.entry(own).sha256
            # The file itself, then its copies. Their codes are stored, so that they are equal to the query's.
            same = self._store.ids_with(bytes.fromhex(sha256)) if sha256 else []
            same.sort(key=lambda number: (number != own, number))
            if code is None:
                code = self._store.code_of(same[0]) if same else None
            if code is None:  # the image was removed in the meantime
                return self.query(image, k, by=by, radius=radius, label=label)
            found = self._store.search(code, k, by=order, radius=radius, label=label)
            if label is not None:
                same = [entry.id for entry in self._store.entries(same) if label in entry.labels]
            hits = self._hits(code, found, same)[:k]
        return QueryResult(hits, _text(code), order)

    def _hits(self, code: CodePair, found: Neighbours, same: Sequence[int]) -> list[Hit]:
        """Return the entries that are the query itself, then all others that were found."""
        asked = code.main.bits()[0]
        rows = dict(zip(found.ids.tolist(), range(len(found.ids)), strict=True))
        nothing = (0 if self.n_bits else None, 0 if self.look_bits else None)
        hits = [Hit(entry, 0, _text(code), (), *nothing, is_identical=True) for entry in self._store.entries(same)]
        others = [number for number in rows if number not in set(same)]
        bits = found.codes.main.bits()
        for entry in self._store.entries(others):
            row = rows[entry.id]
            label, look = (
                None if values is None else int(values[row]) for values in (found.label_distances, found.look_distances)
            )
            flipped = tuple(np.flatnonzero(bits[row] != asked).tolist())
            hits.append(Hit(entry, int(found.distances[row]), "".join(map(str, bits[row])), flipped, label, look))
        return hits

    def duplicates(self, radius: int | None = None, *, tolerance: float = TOLERANCE) -> list[tuple[Entry, ...]]:
        """Return groups of near-duplicates: copies, including resized and recompressed ones.

        Parameters
        ----------
        radius : int, optional
            Largest Hamming distance between the label bits of a pair, 2 by default; between the look bits, if there
            are no label bits, those of a near copy by default.
        tolerance : float
            Largest difference between tiny copies of a pair: root mean square of grey levels. Codes alone do not
            suffice, because learned codes are equal for many images of one class.

        Returns
        -------
        list of tuple of Entry
            Each group by id, groups by their first id.
        """
        ids, codes, copies = self._store.tiny_copies()
        if codes is None:
            return []
        if radius is None:
            radius = 2 if codes.label is not None else PairDistance(0, self.look_bits).near_look
        groups = group_duplicates(codes.main, copies, radius, tolerance)
        found = (self.entries(ids[row] for row in rows) for rows in groups)
        return [tuple(entries) for entries in found if len(entries) > 1]

    def info(self) -> SearchInfo:
        """Return facts about the index."""
        manifest = self._store.manifest
        with self._store.snapshot():
            n_images, (n_contents, n_codes) = self._store.count(), self._store.count_contents()
            labels, generation = self._store.label_counts(), self._store.generation()
        return SearchInfo(
            n_images=n_images,
            n_contents=n_contents,
            n_codes=n_codes,
            n_bits=manifest.n_bits,
            look_bits=manifest.look_bits,
            n_bytes=n_images * ((manifest.n_bits + 7) // 8 + (manifest.look_bits + 7) // 8),
            labels=labels,
            method=self._model.name,
            fingerprint=manifest.fingerprint,
            preprocessing=manifest.preprocessing,
            index=self._store.index_name,
            generation=generation,
        )

    def entries(self, ids: Iterable[int]) -> list[Entry]:
        """Return the entries of images, in the order of the ids; unknown ids are skipped."""
        return self._store.entries(ids)

    def entry(self, image: int) -> Entry:
        """Return the entry of one image.

        Raises
        ------
        InvalidInput
            If the id is unknown.
        """
        found = self.entries([_as_id(image)])
        if not found:
            raise InvalidInput(f"No image has the id {image}.")
        return found[0]

    def ids(self, after: int = -1, limit: int = 100) -> list[int]:
        """Return the next ids after one, ascending: one page of all images."""
        return self._store.ids(after, limit)

    def sample(self, n: int, seed: int | None = None) -> list[int]:
        """Return the ids of `n` random images, or of all images if there are fewer.

        Parameters
        ----------
        n : int
            Number of images, 1 or more.
        seed : int, optional
            Equal seeds give equal samples while the index does not change.
        """
        if not _is_id(n) or n < 1:
            raise InvalidInput(f"n must be an integer, 1 or more; got {n!r}.")
        return self._store.sample(n, seed)

    def id_of(self, path: str | os.PathLike[str]) -> int | None:
        """Return the id of the image at a path, or None if it is not indexed."""
        return self._store.id_of(absolute_path(path))

    def thumbnail(self, image: int, side: int = 256) -> bytes:
        """Return a small JPEG of an indexed image."""
        return thumbnail(self.entry(image).path, side)


def _checksum(image: object) -> str | None:
    """Return the checksum of an image file given by path or by content, if it can be read."""
    if isinstance(image, bytes):
        return hashlib.sha256(image).hexdigest()
    if isinstance(image, str | os.PathLike):
        with suppress(OSError, ValueError, BrokenImage):  # reading the image will tell what is wrong
            check_file(image)
            with Path(image).open("rb") as file:
                return hashlib.file_digest(file, "sha256").hexdigest()
    return None


def _text(code: CodePair) -> str:
    """Return the main code of a query as zeros and ones."""
    return "".join(map(str, code.main.bits()[0].tolist()))


def _is_id(image: object) -> bool:
    return isinstance(image, int | np.integer) and not isinstance(image, bool)


def _as_id(number: object) -> int:
    if not _is_id(number):
        raise InvalidInput(f"An id is an integer; got {number!r}.")
    return int(number)  # type: ignore[call-overload, no-any-return]
