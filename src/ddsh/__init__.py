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
    from ddsh.methods.adsh import ADSH
    from ddsh.methods.affhash import AFFHash
    from ddsh.methods.agh import AGH
    from ddsh.methods.base import Hasher
    from ddsh.methods.bihalf import BiHalf
    from ddsh.methods.cibhash import CIBHash
    from ddsh.methods.cnnh import CNNH
    from ddsh.methods.cosdish import COSDISH
    from ddsh.methods.csq import CSQ
    from ddsh.methods.ddsh import DDSH, DDSH0, DDSHMAC
    from ddsh.methods.dgh import DGH
    from ddsh.methods.dhn import DHN
    from ddsh.methods.dpn import DPN
    from ddsh.methods.dpsh import DPSH
    from ddsh.methods.dsch import DSCH
    from ddsh.methods.dsdh import DSDH
    from ddsh.methods.dsh import DSH
    from ddsh.methods.dsrh import DSRH
    from ddsh.methods.dtsh import DTSH
    from ddsh.methods.fasth import FastH
    from ddsh.methods.greedyhash import GreedyHash
    from ddsh.methods.hashnet import HashNet
    from ddsh.methods.imh import IMH
    from ddsh.methods.isohash import IsoHash
    from ddsh.methods.itq import ITQ
    from ddsh.methods.klsh import KLSH
    from ddsh.methods.ksh import KSH
    from ddsh.methods.lfh import LFH
    from ddsh.methods.lsh import LSH
    from ddsh.methods.nhl import NHL
    from ddsh.methods.ninh import NINH
    from ddsh.methods.orthohash import OrthoHash
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
    "ADSH",
    "AGH",
    "CNNH",
    "COSDISH",
    "CSQ",
    "DDSH",
    "DDSH0",
    "DDSHMAC",
    "DGH",
    "DHN",
    "DPN",
    "DPSH",
    "DSCH",
    "DSDH",
    "DSH",
    "DSRH",
    "DTSH",
    "IMH",
    "ITQ",
    "KLSH",
    "KSH",
    "LFH",
    "LSH",
    "NHL",
    "NINH",
    "SDH",
    "SH",
    "SPH",
    "STH",
    "TSH",
    "AFFHash",
    "Backbone",
    "BiHalf",
    "BinaryCodes",
    "CIBHash",
    "Dataset",
    "DdshError",
    "FastH",
    "GreedyHash",
    "HashNet",
    "Hasher",
    "ImageSearch",
    "IsoHash",
    "MissingExtra",
    "Model",
    "OrthoHash",
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
            "methods.adsh": ["ADSH"],
            "methods.affhash": ["AFFHash"],
            "methods.agh": ["AGH"],
            "methods.base": ["Hasher"],
            "methods.bihalf": ["BiHalf"],
            "methods.cibhash": ["CIBHash"],
            "methods.cnnh": ["CNNH"],
            "methods.cosdish": ["COSDISH"],
            "methods.csq": ["CSQ"],
            "methods.ddsh": ["DDSH", "DDSH0", "DDSHMAC"],
            "methods.dgh": ["DGH"],
            "methods.dhn": ["DHN"],
            "methods.dpn": ["DPN"],
            "methods.dpsh": ["DPSH"],
            "methods.dsch": ["DSCH"],
            "methods.dsdh": ["DSDH"],
            "methods.dsh": ["DSH"],
            "methods.dsrh": ["DSRH"],
            "methods.dtsh": ["DTSH"],
            "methods.fasth": ["FastH"],
            "methods.greedyhash": ["GreedyHash"],
            "methods.hashnet": ["HashNet"],
            "methods.imh": ["IMH"],
            "methods.isohash": ["IsoHash"],
            "methods.itq": ["ITQ"],
            "methods.klsh": ["KLSH"],
            "methods.ksh": ["KSH"],
            "methods.lfh": ["LFH"],
            "methods.lsh": ["LSH"],
            "methods.nhl": ["NHL"],
            "methods.ninh": ["NINH"],
            "methods.orthohash": ["OrthoHash"],
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
