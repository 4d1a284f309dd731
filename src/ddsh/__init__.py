"""ddsh learns very short binary codes for images from labels, and searches with them.

Names are imported when they are first used, so that ``import ddsh`` costs next to nothing.
"""

from typing import TYPE_CHECKING

from ddsh.lazy import lazy

if TYPE_CHECKING:
    from ddsh.codes import BinaryCodes
    from ddsh.datasets import load
    from ddsh.errors import DdshError
    from ddsh.evaluation import evaluate, score
    from ddsh.methods import load_model, save_model
    from ddsh.methods.ddsh import DDSH
    from ddsh.methods.lsh import LSH
    from ddsh.methods.training import Training
    from ddsh.search import ImageSearch

__version__ = "0.1.0"
__all__ = [
    "DDSH",
    "LSH",
    "BinaryCodes",
    "DdshError",
    "ImageSearch",
    "Training",
    "evaluate",
    "load",
    "load_model",
    "save_model",
    "score",
]

_HOMES = {
    "BinaryCodes": "ddsh.codes",
    "DDSH": "ddsh.methods.ddsh",
    "DdshError": "ddsh.errors",
    "ImageSearch": "ddsh.search",
    "LSH": "ddsh.methods.lsh",
    "Training": "ddsh.methods.training",
    "evaluate": "ddsh.evaluation",
    "load": "ddsh.datasets",
    "load_model": "ddsh.methods",
    "save_model": "ddsh.methods",
    "score": "ddsh.evaluation",
}
__getattr__ = lazy(__name__, _HOMES)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
