"""Calibration of a model with the images of an index."""

import numpy as np

from ddsh.calibration import MIN_QUERIES, Calibration, altered_copy
from ddsh.errors import InvalidInput
from ddsh.labels import as_labels
from ddsh.model import Model
from ddsh.search.indexer import NewImage, read_sample
from ddsh.search.store import Store

__all__ = ["calibrate_with_index"]

_MAX_ENTRIES = 2500
_MAX_READ = 300


def calibrate_with_index(store: Store, model: Model) -> Calibration:
    """Return a calibration by the labels of the entries, or by altered copies if there are no label bits.

    It is for models that were saved without one. The entries may be images that the model was trained on; then
    similarities are too high. A calibration that ``ddsh train`` made does not have this fault.

    Parameters
    ----------
    store : Store
        The entries and their codes.
    model : Model
        The model that computed the codes.
    """
    from scipy import sparse  # searching does not need it

    ids = sorted(store.sample(_MAX_ENTRIES, 0))
    files = [NewImage(entry.path) for entry in store.entries(ids)]
    sample = read_sample(files, model.prepare, _MAX_READ) if model.look_bits else []
    familiarity = model.encode_with_familiarity(sample)[1] if sample else None
    labelled = [entry for entry in store.entries(ids) if entry.labels]
    names = sorted({label for entry in labelled for label in entry.labels})
    n_queries = len(labelled) // 5
    if model.n_bits and len(names) > 1 and n_queries >= MIN_QUERIES:
        place = {name: number for number, name in enumerate(names)}
        pairs = [(row, place[label]) for row, entry in enumerate(labelled) for label in entry.labels]
        rows, columns = np.array(pairs, np.int64).T
        labels = as_labels(
            sparse.csr_array((np.ones(len(rows), np.int32), (rows, columns)), (len(labelled), len(names)))
        )
        codes = store.codes([entry.id for entry in labelled])[1]
        assert codes is not None, "there are labelled entries"
        order = np.random.Generator(np.random.PCG64(0)).permutation(len(labelled))
        queries, database = order[:n_queries], order[n_queries:]
        similar = labels.take(queries).similar(labels.take(database))
        return Calibration.from_labels(codes[queries], codes[database], similar, familiarity)
    if model.method is not None or len(sample) < MIN_QUERIES or familiarity is None:
        needed = f"{5 * MIN_QUERIES} labelled images" if model.method is not None else f"{MIN_QUERIES} images"
        raise InvalidInput(
            f"{store.address} lacks only similarities in per cent, which are learned from {needed} or more; it has"
            f" {len(labelled):,} labelled images and {store.count():,} in all. Or give the model to upgrade to."
        )
    rng = np.random.Generator(np.random.PCG64(0))
    copies = model.encode_pair([altered_copy(image, rng) for image in sample])
    return Calibration.from_copies(model.encode_pair(sample), copies, np.arange(len(sample)), familiarity)
