"""Learn short binary codes for images, and search millions with them.

Names are imported when they are first used, so that ``import ddsh`` costs next to nothing.
"""

from typing import TYPE_CHECKING, Any

from ddsh.errors import DdshError, MissingExtra

if TYPE_CHECKING:
    from ddsh import backbones, datasets, evaluation, experiment, images, index, methods, report, search, service
    from ddsh.backbones.base import Backbone
    from ddsh.codes import BinaryCodes
    from ddsh.datasets import Dataset, Protocol, Split, load
    from ddsh.evaluation.evaluator import evaluate
    from ddsh.evaluation.result import Result
    from ddsh.evaluation.scores import Scores, score
    from ddsh.methods.agh import AGH
    from ddsh.methods.base import Hasher
    from ddsh.methods.cosdish import COSDISH
    from ddsh.methods.ddsh import DDSH, DDSH0, DDSHMAC
    from ddsh.methods.dgh import DGH
    from ddsh.methods.dhn import DHN
    from ddsh.methods.dpsh import DPSH
    from ddsh.methods.dsh import DSH
    from ddsh.methods.fasth import FastH
    from ddsh.methods.imh import IMH
    from ddsh.methods.isohash import IsoHash
    from ddsh.methods.itq import ITQ
    from ddsh.methods.klsh import KLSH
    from ddsh.methods.ksh import KSH
    from ddsh.methods.lfh import LFH
    from ddsh.methods.lsh import LSH
    from ddsh.methods.sdh import SDH
    from ddsh.methods.semantic_hashing import SemanticHashing
    from ddsh.methods.sh import SH
    from ddsh.methods.sph import SPH
    from ddsh.methods.sth import STH
    from ddsh.methods.training import Training
    from ddsh.methods.tsh import TSH
    from ddsh.model import Model
    from ddsh.search import ImageSearch

__version__ = "0.2.0"
__all__ = [
    "AGH",
    "COSDISH",
    "DDSH",
    "DDSH0",
    "DDSHMAC",
    "DGH",
    "DHN",
    "DPSH",
    "DSH",
    "IMH",
    "ITQ",
    "KLSH",
    "KSH",
    "LFH",
    "LSH",
    "SDH",
    "SH",
    "SPH",
    "STH",
    "TSH",
    "Backbone",
    "BinaryCodes",
    "Dataset",
    "DdshError",
    "FastH",
    "Hasher",
    "ImageSearch",
    "IsoHash",
    "MissingExtra",
    "Model",
    "Protocol",
    "Result",
    "Scores",
    "SemanticHashing",
    "Split",
    "Training",
    "backbones",
    "datasets",
    "evaluate",
    "evaluation",
    "experiment",
    "images",
    "index",
    "load",
    "methods",
    "report",
    "score",
    "search",
    "service",
]

if not TYPE_CHECKING:  # a type checker sees the names above and no others
    import lazy_loader

    _lazy, _, _ = lazy_loader.attach(
        __name__,
        submodules=[
            "backbones",
            "datasets",
            "evaluation",
            "experiment",
            "images",
            "index",
            "methods",
            "report",
            "search",
            "service",
        ],
        submod_attrs={
            "backbones.base": ["Backbone"],
            "codes": ["BinaryCodes"],
            "datasets": ["Dataset", "Protocol", "Split", "load"],
            "evaluation.evaluator": ["evaluate"],
            "evaluation.result": ["Result"],
            "evaluation.scores": ["Scores", "score"],
            "methods.agh": ["AGH"],
            "methods.base": ["Hasher"],
            "methods.cosdish": ["COSDISH"],
            "methods.ddsh": ["DDSH", "DDSH0", "DDSHMAC"],
            "methods.dgh": ["DGH"],
            "methods.dhn": ["DHN"],
            "methods.dpsh": ["DPSH"],
            "methods.dsh": ["DSH"],
            "methods.fasth": ["FastH"],
            "methods.imh": ["IMH"],
            "methods.isohash": ["IsoHash"],
            "methods.itq": ["ITQ"],
            "methods.klsh": ["KLSH"],
            "methods.ksh": ["KSH"],
            "methods.lfh": ["LFH"],
            "methods.lsh": ["LSH"],
            "methods.sdh": ["SDH"],
            "methods.semantic_hashing": ["SemanticHashing"],
            "methods.sh": ["SH"],
            "methods.sph": ["SPH"],
            "methods.sth": ["STH"],
            "methods.training": ["Training"],
            "methods.tsh": ["TSH"],
            "model": ["Model"],
            "search": ["ImageSearch"],
        },
    )

    def __getattr__(name: str) -> Any:  # noqa: ANN401 -- a module attribute can be anything
        try:
            return _lazy(name)
        except ModuleNotFoundError as error:
            if error.name != "torch":
                raise
            raise MissingExtra(f"ddsh.{name}", "PyTorch", "deep") from error


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
