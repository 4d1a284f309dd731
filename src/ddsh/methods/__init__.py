"""Hashing methods, one module per paper, imported lazily."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ddsh.methods._deep import DeepHasher
    from ddsh.methods._distributed import joined
    from ddsh.methods._two_step import TwoStepHasher
    from ddsh.methods.agh import AGH
    from ddsh.methods.base import Hasher, MethodCard
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
    from ddsh.methods.losses import L2Loss, LogisticLoss, PairLoss
    from ddsh.methods.lsh import LSH
    from ddsh.methods.registry import METHODS, get_method, method_names
    from ddsh.methods.sdh import SDH
    from ddsh.methods.semantic_hashing import SemanticHashing
    from ddsh.methods.sh import SH
    from ddsh.methods.sph import SPH
    from ddsh.methods.sth import STH
    from ddsh.methods.training import Training, TrainingStep
    from ddsh.methods.tsh import TSH
else:
    import lazy_loader

    __getattr__, __dir__, _ = lazy_loader.attach(
        __name__,
        submod_attrs={
            "_deep": ["DeepHasher"],
            "_distributed": ["joined"],
            "_two_step": ["TwoStepHasher"],
            "agh": ["AGH"],
            "base": ["Hasher", "MethodCard"],
            "cosdish": ["COSDISH"],
            "ddsh": ["DDSH", "DDSH0", "DDSHMAC"],
            "dgh": ["DGH"],
            "dhn": ["DHN"],
            "dpsh": ["DPSH"],
            "dsh": ["DSH"],
            "fasth": ["FastH"],
            "imh": ["IMH"],
            "isohash": ["IsoHash"],
            "itq": ["ITQ"],
            "klsh": ["KLSH"],
            "ksh": ["KSH"],
            "lfh": ["LFH"],
            "losses": ["L2Loss", "LogisticLoss", "PairLoss"],
            "lsh": ["LSH"],
            "registry": ["METHODS", "get_method", "method_names"],
            "sdh": ["SDH"],
            "semantic_hashing": ["SemanticHashing"],
            "sh": ["SH"],
            "sph": ["SPH"],
            "sth": ["STH"],
            "training": ["Training", "TrainingStep"],
            "tsh": ["TSH"],
        },
    )

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
    "METHODS",
    "SDH",
    "SH",
    "SPH",
    "STH",
    "TSH",
    "DeepHasher",
    "FastH",
    "Hasher",
    "IsoHash",
    "L2Loss",
    "LogisticLoss",
    "MethodCard",
    "PairLoss",
    "SemanticHashing",
    "Training",
    "TrainingStep",
    "TwoStepHasher",
    "get_method",
    "joined",
    "method_names",
]
