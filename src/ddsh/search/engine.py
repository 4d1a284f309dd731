"""Image search: find the images of a store that are similar to an image."""

import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

import numpy as np

from ddsh.codes import BinaryCodes
from ddsh.errors import InvalidInput
from ddsh.images import ImageLike, as_image, thumbnail
from ddsh.index import get_index
from ddsh.index.rerank import Outputs, rerank_order
from ddsh.model import Model
from ddsh.search.duplicates import TOLERANCE, group_duplicates
from ddsh.search.indexer import Indexer, Progress, absolute_path, list_images
from ddsh.search.local import LocalStore
from ddsh.search.results import AddReport, Hit, QueryResult, RefreshReport, SearchInfo
from ddsh.search.store import AUTO, Entry, SearchManifest, Store, check_fingerprint

__all__ = ["RERANKED", "WAIT_SECONDS", "ImageSearch"]

RERANKED = 1000
"""Number of nearest images that are re-ranked by their real outputs, or ten times `k` if that is more."""

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
        keep_outputs: bool = False,
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
        keep_outputs : bool
            Store the model's real outputs (2 bytes per bit) for re-ranking.
        wait : float
            Seconds to wait for another writer.
        """
        if index != AUTO:
            get_index(index)
        loaded = model if isinstance(model, Model) else Model.load(model)
        manifest = SearchManifest(
            fingerprint=loaded.fingerprint,
            n_bits=loaded.n_bits,
            preprocessing=loaded.preprocessing,
            index=index,
            keeps_outputs=keep_outputs,
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
            The model that it must have been created with; another one is refused.
        wait : float
            Seconds to wait for another writer.
        device : str
            Where the network of the model runs: ``auto``, ``cpu``, ``cuda`` or ``mps``.
        """
        store = LocalStore(folder, wait)
        try:
            if model is not None:
                given = model if isinstance(model, Model) else Model.load(model)
                check_fingerprint(store.folder, str(model), given.fingerprint, store.manifest.fingerprint)
            return cls(store, Model.load(store.model_folder, device=device))
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
        return f"ImageSearch({len(self)} images, {self.n_bits} bits, {str(self.folder)!r})"

    @property
    def folder(self) -> Path:
        """Folder of the index."""
        return self._store.folder

    @property
    def n_bits(self) -> int:
        """Code length."""
        return self._store.manifest.n_bits

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
            keep_outputs = self._store.manifest.keeps_outputs
            return Indexer(writer, self._model, keep_outputs=keep_outputs).add(items, on_progress)

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
            keep_outputs = self._store.manifest.keeps_outputs
            return Indexer(writer, self._model, keep_outputs=keep_outputs).refresh(on_progress)

    def query(
        self,
        image: ImageLike | int,
        k: int = 20,
        *,
        radius: int | None = None,
        label: str | None = None,
        rerank: bool = False,
    ) -> QueryResult:
        """Return the images most similar to an image, by Hamming distance and then by id.

        Parameters
        ----------
        image : path, bytes, array, Pillow image or int
            An image, or the id of an indexed one, which then is among the results.
        k : int
            Largest number of images to return.
        radius : int, optional
            Largest Hamming distance to return.
        label : str, optional
            Return only images with this label.
        rerank : bool
            Order the nearest images by real outputs, which separate images at equal distance: the query's outputs
            are compared with the stored ones, or with the codes if none are stored.

        Returns
        -------
        QueryResult
            A sequence of :class:`Hit`, with the code of the query.
        """
        if not _is_id(k) or k < 1:
            raise InvalidInput(f"k must be an integer, 1 or more; got {k!r}.")
        encoded = None if _is_id(image) else self._encode(image)
        with self._store.snapshot():
            code, outputs = encoded or self._stored_code(_as_id(image))
            n_wanted: int | None = k
            if rerank:
                n_wanted = max(RERANKED, 10 * k) if radius is None else None
            found = self._store.search(code, n_wanted, radius=radius, label=label)
            ids, distances, codes = found.ids, found.distances, found.codes
            if rerank:
                order = rerank_order(outputs, ids, codes, self._store.outputs(ids))[:k]
                ids, distances, codes = ids[order], distances[order], codes[order]
            entries = self._store.entries(ids.tolist())
        asked = code.bits()[0]
        hits = [
            Hit(entry, distance, "".join(map(str, bits.tolist())), tuple(np.flatnonzero(bits != asked).tolist()))
            for entry, distance, bits in zip(entries, distances.tolist(), codes.bits(), strict=True)
        ]
        return QueryResult(hits, "".join(map(str, asked.tolist())))

    def duplicates(self, radius: int = 2, *, tolerance: float = TOLERANCE) -> list[tuple[Entry, ...]]:
        """Return groups of near-duplicates: copies, including resized and recompressed ones.

        Parameters
        ----------
        radius : int
            Largest Hamming distance between the codes of a pair.
        tolerance : float
            Largest difference between tiny copies of a pair: root mean square of grey levels. Codes alone do not
            suffice, because learned codes are equal for many images of one class.

        Returns
        -------
        list of tuple of Entry
            Each group by id, groups by their first id.
        """
        ids, codes, copies = self._store.tiny_copies()
        groups = group_duplicates(codes, copies, radius, tolerance)
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
            n_bytes=n_images * ((manifest.n_bits + 7) // 8),
            labels=labels,
            method=self._model.name,
            fingerprint=manifest.fingerprint,
            preprocessing=manifest.preprocessing,
            index=self._store.index_name,
            keeps_outputs=manifest.keeps_outputs,
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

    def _encode(self, image: ImageLike) -> tuple[BinaryCodes, Outputs]:
        outputs = self._model.project([self._model.prepare(as_image(image))])
        return BinaryCodes.from_outputs(outputs), outputs[0]

    def _stored_code(self, image: int) -> tuple[BinaryCodes, Outputs]:
        found = self._store.code_of(image)
        if found is None:
            raise InvalidInput(f"No image has the id {image}.")
        code, outputs = found
        return code, code.signs()[0].astype(np.float32) if outputs is None else outputs


def _is_id(image: object) -> bool:
    return isinstance(image, int | np.integer) and not isinstance(image, bool)


def _as_id(number: object) -> int:
    if not _is_id(number):
        raise InvalidInput(f"An id is an integer; got {number!r}.")
    return int(number)  # type: ignore[call-overload, no-any-return]
