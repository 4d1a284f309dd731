"""Image search: find the images of a store that are similar to an image."""

import hashlib
import os
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from threading import RLock
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from ddsh.calibration import Calibration
from ddsh.codes import CodePair
from ddsh.errors import ArtefactError, BrokenImage, InvalidInput
from ddsh.images import Image, ImageLike, as_image, check_file, decode_image, thumbnail
from ddsh.index.pairs import By, PairDistance, check_by
from ddsh.look import LOOK_BITS
from ddsh.model import Model
from ddsh.search.address import create_store, open_store
from ddsh.search.duplicates import TOLERANCE, group_duplicates
from ddsh.search.indexer import (
    MAX_LABELS,
    Indexer,
    NewImage,
    Progress,
    absolute_path,
    check_labels,
    list_images,
    pack_codes,
    read_sample,
)
from ddsh.search.layout import MAX_POINTS, MapLayout, lay_out
from ddsh.search.onnx_encoder import OnnxEncoder, write_encoder
from ddsh.search.results import (
    AddReport,
    Hit,
    LabelChange,
    LabelReport,
    QueryCode,
    QueryResult,
    RefreshReport,
    RemovedImage,
    SearchInfo,
    UpgradeReport,
)
from ddsh.search.store import AUTO, Entry, Filter, Neighbours, SearchManifest, Store, check_fingerprint
from ddsh.search.upgrade import stage_codes

__all__ = ["WAIT_SECONDS", "ImageSearch"]

WAIT_SECONDS = 5.0
"""Default time to wait for another writer."""

_MAX_COMPARED = 16  # files that a search reads to tell equal pixels from equal codes
_CACHED_CHECKSUMS = 10_000
_WORTH_EXPORTING = 500  # images that PyTorch encodes in about the time that exporting a network takes
_COMPARED_WITH_ONNX = 64
# Without the address of the index: clients of the service read it, too.
_NOT_CALIBRATED = "Similarities in per cent were not learned for this order; learn them with: ddsh index upgrade INDEX"


@dataclass(frozen=True, eq=False)
class _Request:
    """A query: image, its id and the checksum of its file if they are known, and the options of the search."""

    image: Any
    own: int | None
    sha256: str | None
    where: Filter
    n: int
    by: By
    radius: int | None
    min_similarity: float | None


@dataclass(frozen=True)
class _Found:
    """The first hits of a query, its codes, and the order."""

    hits: list[Hit]
    code: CodePair
    by: By
    query: QueryCode


@dataclass
class _CurrentModel:
    """The model of the stored codes; `model` is None until an image is encoded, which needs its network."""

    fingerprint: str
    folder: Path
    calibration: Calibration | None
    model: Model | None
    encoder: OnnxEncoder | None = None
    may_have_encoder: bool = True


class ImageSearch:
    """Finds images that are similar to an image: a model and a store.

    Use :meth:`create` or :meth:`open`. Any number of threads and processes may search
    while one of them makes changes; every result shows one state of the store.

    Parameters
    ----------
    store : Store
        The indexed images and their codes.
    model : Model, optional
        The model that computed the codes. By default it is that of the store's folder, which is loaded when it is
        needed; a search with an indexed image does not need it.
    device : str
        Where its network runs: ``auto``, ``cpu``, ``cuda`` or ``mps``.
    """

    def __init__(self, store: Store, model: Model | None = None, *, device: str = "auto") -> None:
        self._store = store
        self._loading = RLock()
        self._device = device
        if model is None:
            self._loaded = self._open_model(store.manifest.fingerprint, store.model_folder)
        else:
            check_fingerprint(store.address, "its own model folder", model.fingerprint, store.manifest.fingerprint)
            self._loaded = _CurrentModel(model.fingerprint, store.model_folder, model.calibration, model)
        self._pixels: dict[str, bytes] = {}  # checksums of pixels by those of files

    @classmethod
    def create(
        cls,
        address: str | os.PathLike[str],
        model: str | os.PathLike[str] | Model,
        *,
        index: str = AUTO,
        wait: float = WAIT_SECONDS,
    ) -> Self:
        """Create an empty index in a local folder or in a database.

        Parameters
        ----------
        address : path or str
            A new or empty folder, or the address of a database: ``postgresql://...`` or ``milvus://...``; see
            :mod:`ddsh.search.address`.
        model : path or Model
            A trained model or its folder; a copy is saved in the index.
        index : str
            How codes are searched. In a folder a name of :data:`ddsh.index.INDEXES`; all return the same results.
            ``hnsw`` (PostgreSQL) and ``ivf`` (Milvus) may miss some. ``auto`` chooses an exact one.
        wait : float
            Seconds to wait for another writer.
        """
        loaded = model if isinstance(model, Model) else Model.load(model)
        return cls(create_store(address, _manifest(loaded, index), loaded.save, wait), loaded)

    @classmethod
    def open(
        cls,
        address: str | os.PathLike[str],
        *,
        model: str | os.PathLike[str] | Model | None = None,
        wait: float = WAIT_SECONDS,
        device: str = "auto",
    ) -> Self:
        """Open an index.

        Parameters
        ----------
        address : path or str
            Its folder, or the address of its database.
        model : path or Model, optional
            The model that it must have been created with; another one is refused. Look bits may have been added to it.
        wait : float
            Seconds to wait for another writer.
        device : str
            Where the network of the model runs: ``auto``, ``cpu``, ``cuda`` or ``mps``.
        """
        store = open_store(address, wait)
        try:
            opened = cls(store, device=device)
            if model is not None:
                own, given = opened.load_model(), model if isinstance(model, Model) else Model.load(model)
                expected = own.fingerprint if given.look_bits else own.label_fingerprint
                check_fingerprint(store.address, str(model), given.fingerprint, expected)
            return opened
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
        return f"ImageSearch({len(self)} images, {bits} bits, {self.address!r})"

    @property
    def address(self) -> str:
        """Folder of the index, or the address of its database without a password."""
        return self._store.address

    @property
    def folder(self) -> Path:
        """Local folder of the index; of a database, a folder for local copies of images and of the model."""
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

    @property
    def parallel_searches(self) -> bool:
        """Whether several threads search at the same time; otherwise each waits for the one before."""
        return self._store.parallel_reads

    def add(
        self,
        images: ImageLike | Iterable[ImageLike],
        *,
        labels: Sequence[str | Sequence[str] | None] | None = None,
        metadata: Sequence[Mapping[str, Any] | None] | None = None,
        root: str | os.PathLike[str] | None = None,
        on_progress: Progress | None = None,
        decode: Callable[[bytes], Image] = decode_image,
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
        decode : callable
            Decodes the content of an image file, by default in this process; see :class:`ddsh.sandbox.Sandbox`.
        """
        items, roots = list_images(images, labels, metadata)
        if root is not None:
            roots.append(absolute_path(root))
        with self._store.write() as writer:
            with writer.transaction():
                for folder in roots:
                    writer.add_root(folder)
            return Indexer(writer, self._encoder_for(items), decode).add(items, on_progress)

    def change_labels(self, changes: LabelChange | Iterable[LabelChange]) -> LabelReport:
        """Give labels to images and take labels from them, all at once.

        Images that are no longer in the index are reported. What others changed in the meantime is kept: only the
        labels that are named are given or taken.

        Parameters
        ----------
        changes : LabelChange, or several
            The changes, applied in order.

        Returns
        -------
        LabelReport
            What really changed. Apply :meth:`LabelChange.inverse` of its changes, last one first, to undo it.
        """
        asked = [changes] if isinstance(changes, LabelChange) else list(changes)
        for change in asked:
            check_labels(change.add)
            if both := sorted(set(change.add) & set(change.remove)):
                raise InvalidInput(f"The label {both[0]!r} is to be given and taken at once; choose one of them.")
        done: list[LabelChange] = []
        with self._store.write() as writer, writer.transaction():
            ids = sorted({_as_id(number) for change in asked for number in change.ids})
            before = {number: writer.labels_of(number) for number in ids}
            now = {number: set(labels) for number, labels in before.items() if labels is not None}
            for change in asked:
                same: dict[tuple[tuple[str, ...], tuple[str, ...]], list[int]] = {}
                for number in sorted({_as_id(number) for number in change.ids} & now.keys()):
                    new, gone = set(change.add) - now[number], set(change.remove) & now[number]
                    if new or gone:
                        now[number] = (now[number] | new) - gone
                        same.setdefault((tuple(sorted(new)), tuple(sorted(gone))), []).append(number)
                done += [LabelChange(tuple(numbers), *labels) for labels, numbers in same.items()]
            for number, wanted in now.items():
                found = before[number] or ()
                if len(wanted) > max(MAX_LABELS, len(found)):
                    raise InvalidInput(
                        f"Image {number} would have {len(wanted):,} labels; the limit is {MAX_LABELS:,}."
                    )
                if wanted != set(found):
                    writer.set_labels(number, sorted(wanted))
        return LabelReport(tuple(done), tuple(number for number in ids if number not in now))

    def take_out(self, ids: Iterable[int]) -> tuple[list[RemovedImage], list[int]]:
        """Remove images so that :meth:`restore` can undo it, and return them and the ids that are unknown.

        Images that the index keeps in its folder stay there until :meth:`remove_unused_images`.
        """
        taken: list[RemovedImage] = []
        wanted = sorted({_as_id(number) for number in ids})
        with self._store.write() as writer, writer.transaction():
            for entry in self._store.entries(wanted):
                content = writer.content_of(entry.id)
                if content is not None:
                    taken.append(RemovedImage(entry, content, self.fingerprint))
            found = [image.entry.id for image in taken]
            writer.remove(found, keep_images=True)
        return taken, sorted(set(wanted) - set(found))

    def restore(self, images: Iterable[RemovedImage]) -> list[int]:
        """Bring back images that :meth:`take_out` removed, with their ids, and return the ids.

        An image is left out if its id or its path is in the index again, or if the index was upgraded to another
        model since.
        """
        restored = []
        with self._store.write() as writer, writer.transaction():
            for image in images:
                entry = image.entry
                known = writer.labels_of(entry.id) is not None or writer.file_at(Path(entry.path)) is not None
                if known or image.fingerprint != self.fingerprint:
                    continue
                if not writer.has_content(image.content.sha256):
                    writer.put_content(image.content)
                writer.restore(entry)
                restored.append(entry.id)
        return restored

    def remove_unused_images(self, keep: Collection[str] = ()) -> None:
        """Delete images in the folder of the index that no entry refers to, except those with the paths in `keep`."""
        with self._store.write() as writer:
            writer.remove_unused_images({Path(path) for path in keep})

    def upgrade(
        self,
        model: str | os.PathLike[str] | Model | None = None,
        *,
        look_bits: int | None = None,
        remove_missing: bool = False,
        on_progress: Progress | None = None,
    ) -> UpgradeReport:
        """Encode all images anew with another model, and switch to it at once.

        Without a model, an index that an earlier version made gets what it lacks: look bits, or similarities in per
        cent. Ids, labels and metadata stay. Until the switch, the old state is searched and can be changed. After an
        interruption the old state is intact; upgrade again to continue.

        Parameters
        ----------
        model : path or Model, optional
            The new model; by default the present one, which gets look bits or a calibration.
        look_bits : int, optional
            Number of look bits to learn from the indexed images, if the model has none: 128 by default, 0 for none.
        remove_missing : bool
            Remove images whose file is missing or changed, and which thus have no code of the new model. By default
            they prevent the switch.
        on_progress : callable, optional
            Called with the number of images done and their total.

        Raises
        ------
        InvalidInput
            If the model is the present one, if it has another number of look bits, or if files are missing.
        """
        present = self.load_model()
        if model is None and present.calibration is None and present.look_bits:
            _check_look_bits(present, look_bits)
            from ddsh.search.index_calibration import calibrate_with_index

            with self._store.write():
                self._loaded.calibration = present.calibration = calibrate_with_index(self._store, present)
                self._store.change_model(present.save_calibration)
            return UpgradeReport(len(self), 0, (), present.n_bits, present.look_bits)
        new = self._model_for_upgrade(model, look_bits)
        manifest = _manifest(new, self._store.manifest.index)
        with self._store.stage(manifest, new.save) as staged:
            # Most of the work, without the lock: meanwhile others search, add images and change labels.
            encoded, _ = stage_codes(self._store.files(), new, staged, on_progress)
            with self._store.write(alone=True) as writer:
                rest, unreadable = stage_codes(writer.files(), new, staged)
                if unreadable and not remove_missing:
                    raise InvalidInput(
                        f"{len(unreadable):,} of {len(self):,} files are missing or changed, such as"
                        f" {unreadable[0].path}; refresh the index first (ddsh index refresh), or remove them"
                        " (--remove-missing)."
                    )
                removed = tuple(file.id for file in unreadable)
                with writer.transaction():
                    writer.remove(removed)
                    writer.switch(staged)
            self.load_model()
        return UpgradeReport(len(self), encoded + rest, removed, new.n_bits, new.look_bits)

    def _model_for_upgrade(self, model: str | os.PathLike[str] | Model | None, look_bits: int | None) -> Model:
        """Return another model than the present one, with look bits if it can have some."""
        if isinstance(model, Model):
            new = model
        else:
            new = Model.load(self._store.model_folder if model is None else model, device=self._device)
        if model is None and new.look_bits:
            raise InvalidInput(f"{self.address} has look bits and similarities; give the model to upgrade to.")
        _check_look_bits(new, look_bits)
        look_bits = LOOK_BITS if look_bits is None else look_bits
        if look_bits and not new.look_bits and (new.backbone is not None or model is None):
            sample = read_sample([NewImage(file.path) for file in self._store.files()], new.prepare)
            if not sample:
                raise InvalidInput(
                    "None of the indexed images can be read, so there is nothing to learn look bits from."
                )
            new.fit_look(sample, look_bits)
        if new.fingerprint == self._current().fingerprint:
            raise InvalidInput(f"{self.address} was made with this model already; there is nothing to upgrade.")
        return new

    def load_model(self) -> Model:
        """Load the network of the model now, if it is not loaded yet, and return the model."""
        return self._network_of(self._current())

    def _current(self) -> _CurrentModel:
        """Return the model of the stored codes; after an upgrade it is another one."""
        with self._store.snapshot():
            fingerprint, folder = self._store.manifest.fingerprint, self._store.model_folder
        if self._loaded.fingerprint == fingerprint:
            return self._loaded
        with self._loading:
            if self._loaded.fingerprint != fingerprint:
                self._loaded = self._open_model(fingerprint, folder)
            return self._loaded

    def _open_model(self, fingerprint: str, folder: Path) -> _CurrentModel:
        """Read the description of a model, and its weights if nothing else tells its fingerprint."""
        manifest = Model.read_manifest(folder)
        opened = _CurrentModel(fingerprint, folder, manifest.calibration, None)
        if manifest.fingerprint is None:  # written by an earlier version
            self._network_of(opened)
        else:
            check_fingerprint(self.address, "its own model folder", manifest.fingerprint, fingerprint)
        return opened

    def _encoder_for(self, items: Sequence[NewImage]) -> Model | OnnxEncoder:
        """Return what encodes images that are to be added; many of them are worth an encoder for onnxruntime."""
        current = self._current()
        encoder = self._encoder_of(current)
        if isinstance(encoder, Model) and len(items) >= _WORTH_EXPORTING and self._device in ("auto", "cpu"):
            with self._loading:
                sample = read_sample(items, encoder.prepare, _COMPARED_WITH_ONNX)
                current.encoder = write_encoder(encoder, current.folder, sample)
        return current.encoder or encoder

    def _encoder_of(self, current: _CurrentModel) -> Model | OnnxEncoder:
        """Return the encoder for onnxruntime if there is one, else the model with its network."""
        with self._loading:
            if current.may_have_encoder and self._device in ("auto", "cpu"):
                current.encoder = OnnxEncoder.open(current.folder)
            current.may_have_encoder = False
            return current.encoder or self._network_of(current)

    def _network_of(self, current: _CurrentModel) -> Model:
        """Return the model with its network."""
        with self._loading:
            if current.model is None:
                model = Model.load(current.folder, device=self._device)
                check_fingerprint(self.address, "its own model folder", model.fingerprint, current.fingerprint)
                current.model = model
            return current.model

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

    def refresh(self, *, checksum: bool = False, on_progress: Progress | None = None) -> RefreshReport:
        """Encode changed files again, follow moved files, and remove images whose file is gone.

        Moved files are searched below the folders that were added. New files are not added; use :meth:`add`.

        Parameters
        ----------
        checksum : bool
            Read every file and compare its checksum. By default, a file with the same size and modification time is
            taken for unchanged.
        on_progress : callable, optional
            Called with the number of files checked and their total.
        """
        with self._store.write() as writer:
            return Indexer(writer, self.load_model()).refresh(on_progress, checksum=checksum)

    def query(
        self,
        image: ImageLike | int | QueryCode,
        k: int = 20,
        *,
        offset: int = 0,
        by: By = "both",
        radius: int | None = None,
        min_similarity: float | None = None,
        label: str | Sequence[str] | None = None,
        all_labels: bool = False,
        text: str | None = None,
        sha256: str | None = None,
    ) -> QueryResult:
        """Return the images most similar to an image.

        The image itself comes first, if it is indexed, and then copies of its file.

        Parameters
        ----------
        image : path, bytes, array, Pillow image, int or QueryCode
            An image, or the id of an indexed one, which then is among the results, or the ``query`` of an earlier
            result.
        k : int
            Largest number of images to return.
        offset : int
            Number of images to leave out at the start: the next page of a result has its offset plus its length.
        by : {"both", "label", "look"}
            Order by the distance of both codes (:class:`ddsh.index.pairs.PairDistance`), by label bits and then by
            look bits, or by look bits and then by label bits. ``both`` uses the only code there is, if there is one.
        radius : int, optional
            Largest distance to return, in that order.
        min_similarity : float, optional
            Smallest similarity to return, in per cent.
        label : str or sequence of str, optional
            Return only images with this label, or with one of these.
        all_labels : bool
            Return only images with all of these labels.
        text : str, optional
            Return only images with each of these words in a label, the file name or the metadata.
        sha256 : str, optional
            Checksum of the image's file, for an image that was decoded already; known for a path and for bytes.

        Returns
        -------
        QueryResult
            A sequence of :class:`Hit`, with the code of the query.
        """
        if not _is_id(k) or k < 1:
            raise InvalidInput(f"k must be an integer, 1 or more; got {k!r}.")
        if not _is_id(offset) or offset < 0:
            raise InvalidInput(f"offset must be an integer, 0 or more; got {offset!r}.")
        if text is not None and not text.isascii() and any("\ud800" <= letter <= "\udfff" for letter in text):
            raise InvalidInput("The words to filter by are not text; give them in UTF-8.")
        where = _filter(label, all_labels, text)
        own = _as_id(image) if _is_id(image) else None
        if own is None and sha256 is None:
            sha256 = image.sha256.hex() if isinstance(image, QueryCode) else _checksum(image)
        request = _Request(image, own, sha256 or None, where, offset + k + 1, by, radius, min_similarity)
        # With an indexed image, _find notices an upgrade by itself.
        found = self._find(request, self._current() if own is None else self._loaded)
        while found is None:  # again, if the index was upgraded or the image removed in the meantime
            found = self._find(request, self._current())
        hits = found.hits[offset : offset + k]
        return QueryResult(
            self._mark_equal_pixels(hits, found.query),
            _text(found.code),
            found.by,
            query=found.query,
            has_more=len(found.hits) > offset + k,
        )

    def _find(self, request: "_Request", model: _CurrentModel) -> "_Found | None":
        """Return the first hits of a query; None if the index changed, so that it must be tried again."""
        code, familiarity, pixels = self._encode_query(request, model)
        with self._store.snapshot():
            if self._store.manifest.fingerprint != model.fingerprint:
                return None
            order, calibration = check_by(request.by, self.n_bits, self.look_bits), model.calibration
            if calibration is not None and order not in calibration.curves:
                calibration = None
            if request.min_similarity is not None and calibration is None:
                raise InvalidInput(_NOT_CALIBRATED)
            # The file itself, then its copies. Their codes are stored, so that they are equal to the query's.
            if request.own is not None:
                stored = self._store.copies_of(request.own)
                if stored is None:
                    raise InvalidInput(f"No image has the id {request.own}.")
                sha256, code, same = stored
                same.sort(key=lambda number: (number != request.own, number))
            else:
                sha256 = bytes.fromhex(request.sha256 or "")
                same = self._store.ids_with(sha256) if sha256 else []
                code = self._store.code_of(same[0]) if same and code is None else code
            if code is None:
                return None
            weight = self._weight(calibration, code, None if same else familiarity)
            radius, least = request.radius, request.min_similarity or 0
            if calibration is not None and least:
                reach = max(0, calibration.reach(order, least, weight))
                radius = reach if radius is None else min(radius, reach)
            found = self._store.search(code, request.n, by=order, radius=radius, where=request.where)
            if request.where and same:
                allowed = set(self._store.matching(request.where).tolist())
                same = [number for number in same if number in allowed]
            similar = None if calibration is None else calibration.similarity(order, found.distances, weight)
            hits = self._hits(code, found, similar, same, request.own)
        if calibration is not None:
            hits = [hit for hit in hits if (hit.similarity or 0) >= least]
        packed = pack_codes(code)[0].tobytes()
        query = QueryCode(bytes.fromhex(model.fingerprint)[:8], packed, sha256, pixels, familiarity)
        return _Found(hits, code, order, query)

    def _encode_query(self, request: "_Request", current: _CurrentModel) -> tuple[CodePair | None, float | None, bytes]:
        """Return codes, familiarity and checksum of the pixels of a query; no codes if they are stored."""
        image, sha256 = request.image, request.sha256
        if isinstance(image, QueryCode):
            n_bytes = (self.n_bits + 7) // 8 + (self.look_bits + 7) // 8
            if image.fingerprint != bytes.fromhex(current.fingerprint)[:8] or len(image.code) != n_bytes:
                raise InvalidInput("The index has another model than this query; search with the image again.")
            packed = np.frombuffer(image.code, np.uint8)[None]
            return CodePair.from_packed(packed, self.n_bits, self.look_bits), image.familiarity, image.pixels
        if request.own is not None or (sha256 and self._store.ids_with(bytes.fromhex(sha256))):
            return None, None, b""
        decoded, model = as_image(image), self._encoder_of(current)
        code, familiarity = model.encode_with_familiarity([model.prepare(decoded)])
        return code, None if familiarity is None else float(familiarity[0]), _pixel_checksum(decoded)

    def _weight(self, calibration: Calibration | None, code: CodePair, familiarity: float | None) -> float:
        """Return the factor of all similarities: less than 1 for an unfamiliar image without a near copy here."""
        if calibration is None or familiarity is None:
            return 1.0
        weight = calibration.weight(familiarity)
        if weight < 1:
            nearest = self._store.search(code, 1, by="look").look_distances
            near = PairDistance(self.n_bits, self.look_bits).near_look // 2
            if nearest is not None and len(nearest) and nearest[0] <= near:
                return 1.0
        return weight

    def _hits(
        self,
        code: CodePair,
        found: Neighbours,
        similar: NDArray[np.float64] | None,
        same: Sequence[int],
        own: int | None,
    ) -> list[Hit]:
        """Return the entries that are the query itself, then all others that were found."""
        bits, own_text = found.codes.main.bits(), _text(code)
        texts = (bits + ord("0")).tobytes().decode("ascii")  # those of all hits, one after the other
        rows, places = np.nonzero(bits != code.main.bits())
        flipped, ends = tuple(places.tolist()), np.searchsorted(rows, np.arange(len(bits) + 1)).tolist()
        nothing = [None] * len(bits)
        distances: list[int] = found.distances.tolist()
        columns = (found.label_distances, found.look_distances, similar)
        labels, looks, shares = (nothing if each is None else each.tolist() for each in columns)
        row_of = {number: row for row, number in enumerate(found.ids.tolist())}
        equal = (0 if self.n_bits else None, 0 if self.look_bits else None, None if similar is None else 100.0)
        itself = set(same)
        wanted = [*same, *(number for number in row_of if number not in itself)]
        entries = self._store.entries(wanted)
        if len(entries) < len(wanted):
            raise ArtefactError(f"{self.address} is damaged (entries are missing); see: ddsh index verify")
        hits = []
        for entry in entries:
            if entry.id in itself:
                hits.append(Hit(entry, 0, own_text, (), *equal, match="query" if entry.id == own else "file"))
                continue
            row = row_of[entry.id]
            text = texts[row * bits.shape[1] : (row + 1) * bits.shape[1]]
            facts = labels[row], looks[row], shares[row]
            hits.append(Hit(entry, distances[row], text, flipped[ends[row] : ends[row + 1]], *facts))
        return hits

    def _mark_equal_pixels(self, hits: Sequence[Hit], query: QueryCode) -> list[Hit]:
        """Return the hits, with those marked that are other files with the query's pixels; few files are read."""
        marked, n_read = list(hits), 0
        pixels = query.pixels
        for place, hit in enumerate(hits):
            if hit.match or hit.label_distance or hit.look_distance or n_read >= _MAX_COMPARED:
                continue
            if not pixels:
                known = self.entries(self._store.ids_with(query.sha256)) if query.sha256 else []
                pixels = self._pixels_of(known[0]) if known else b""
                if not pixels:
                    break
            n_read += 1
            if self._pixels_of(hit.entry) == pixels:
                marked[place] = hit._replace(match="pixels", similarity=None if hit.similarity is None else 100.0)
        return marked

    def _pixels_of(self, entry: Entry) -> bytes:
        """Return the checksum of an image's pixels, empty if its file cannot be read; the last ones are kept."""
        if entry.sha256 not in self._pixels:
            if len(self._pixels) >= _CACHED_CHECKSUMS:
                self._pixels.clear()
            try:
                self._pixels[entry.sha256] = _pixel_checksum(as_image(entry.path))
            except BrokenImage:
                return b""
        return self._pixels[entry.sha256]

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
            radius = 2 if codes.label is not None else self.look_bits // 4
        groups = group_duplicates(codes.main, copies, radius, tolerance)
        found = (self.entries(ids[row] for row in rows) for rows in groups)
        return [tuple(entries) for entries in found if len(entries) > 1]

    def info(self) -> SearchInfo:
        """Return facts about the index."""
        model = self.load_model()
        with self._store.snapshot():
            manifest = self._store.manifest
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
            method=model.name,
            fingerprint=manifest.fingerprint,
            preprocessing=manifest.preprocessing,
            similarity=None if model.calibration is None else model.calibration.meaning,
            index=self._store.index_name,
            generation=generation,
        )

    def label_counts(self) -> dict[str, int]:
        """Return the number of images with each label, by label."""
        return self._store.label_counts()

    def verify(self) -> list[str]:
        """Read everything that is stored, compare checksums, and return what is wrong; one line each."""
        return self._store.problems()

    def check(self) -> int:
        """Return the number of images, after a search that shows that the index works."""
        for number in self.ids(limit=1):
            self.query(number, k=1)
        return len(self)

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

    def sample(
        self,
        n: int,
        seed: int | None = None,
        *,
        label: str | Sequence[str] | None = None,
        all_labels: bool = False,
        text: str | None = None,
    ) -> list[int]:
        """Return the ids of `n` random images, or of all images if there are fewer.

        Parameters
        ----------
        n : int
            Number of images, 1 or more.
        seed : int, optional
            Equal seeds give equal samples while the index does not change.
        label, all_labels, text
            Return only images that these allow, as in :meth:`search`.
        """
        if not _is_id(n) or n < 1:
            raise InvalidInput(f"n must be an integer, 1 or more; got {n!r}.")
        where = _filter(label, all_labels, text)
        if not where:
            return self._store.sample(n, seed)
        matching = self._store.matching(where)
        chosen: list[int] = np.random.default_rng(seed).permutation(matching)[:n].tolist()
        return chosen

    def layout(self) -> MapLayout:
        """Return positions of all images on a map, or of a sample of 10,000; see :func:`ddsh.search.layout.lay_out`."""
        with self._store.snapshot():
            ids, codes = self._store.codes(sorted(self._store.sample(MAX_POINTS, 0)))
            labels = [entry.labels for entry in self._store.entries(ids)]
            n_images = self._store.count()
        return MapLayout(ids, np.empty((0, 2)) if codes is None else lay_out(codes), labels, n_images)

    def id_of(self, path: str | os.PathLike[str]) -> int | None:
        """Return the id of the image at a path, or None if it is not indexed."""
        return self._store.id_of(absolute_path(path))

    def thumbnail(self, image: int, side: int = 256) -> bytes:
        """Return a small JPEG of an indexed image."""
        return thumbnail(self.entry(image).path, side)


def _filter(label: str | Sequence[str] | None, all_labels: bool, text: str | None) -> Filter:
    return Filter((label,) if isinstance(label, str) else tuple(label or ()), all_labels, text or "")


def _check_look_bits(model: Model, look_bits: int | None) -> None:
    if model.look_bits and look_bits not in (None, model.look_bits):
        raise InvalidInput(f"The model has {model.look_bits} look bits; leave out look_bits={look_bits}.")


def _manifest(model: Model, index: str) -> SearchManifest:
    """Return the settings of an index of a model."""
    return SearchManifest(
        fingerprint=model.fingerprint,
        n_bits=model.n_bits,
        look_bits=model.look_bits,
        preprocessing=model.preprocessing,
        index=index,
    )


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


def _pixel_checksum(image: Image) -> bytes:
    """Return a checksum of the shape and the pixels of an image."""
    return hashlib.sha256(repr(image.shape).encode() + np.ascontiguousarray(image).tobytes()).digest()[:16]


def _text(code: CodePair) -> str:
    """Return the main code of a query as zeros and ones."""
    bits: NDArray[np.uint8] = code.main.bits()[0]
    return bytes(bits + ord("0")).decode("ascii")


def _is_id(image: object) -> bool:
    return isinstance(image, int | np.integer) and not isinstance(image, bool)


def _as_id(number: object) -> int:
    if not _is_id(number):
        raise InvalidInput(f"An id is an integer; got {number!r}.")
    return int(number)  # type: ignore[call-overload, no-any-return]
