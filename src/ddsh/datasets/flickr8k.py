"""Flickr8k photos with ten concepts derived from their captions.

The labels are not the makers': a concept is given to a photo where its captions name it.

References
----------
Hodosh, M., Young, P. and Hockenmaier, J. "Framing Image Description as a Ranking Task: Data, Models and Evaluation
Metrics." JAIR 2013.
"""

import os
from dataclasses import replace
from pathlib import Path

from ddsh.datasets.base import Dataset
from ddsh.datasets.table import load_table

__all__ = ["TABLE", "load"]

TABLE = "flickr8k.csv"


def load(root: str | os.PathLike[str]) -> Dataset:
    """Read Flickr8k from a folder with ``flickr8k.csv`` and the photos it lists.

    Parameters
    ----------
    root : path
        The folder. The table has a column ``path`` and a column ``labels``, concepts separated by ``;``.

    Returns
    -------
    Dataset
        Multi-label photos; they are decoded on access.
    """
    return replace(load_table(Path(root) / TABLE, verify=False), name="flickr8k", protocol="flickr8k")
