"""Hashing methods, one module per paper, imported lazily."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ddsh.methods._deep import DeepHasher
    from ddsh.methods._distributed import joined
    from ddsh.methods._two_step import TwoStepHasher
    from ddsh.methods.adsh import ADSH
    from ddsh.methods.affhash import AFFHash
    from ddsh.methods.agh import AGH
    from ddsh.methods.base import Hasher, MethodCard
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
    from ddsh.methods.losses import HingeLoss, L2Loss, LogisticLoss, PairLoss, TripletLoss
    from ddsh.methods.lsh import LSH
    from ddsh.methods.nhl import NHL
    from ddsh.methods.ninh import NINH
    from ddsh.methods.orthohash import OrthoHash
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
            "adsh": ["ADSH"],
            "affhash": ["AFFHash"],
            "agh": ["AGH"],
            "base": ["Hasher", "MethodCard"],
            "bihalf": ["BiHalf"],
            "cibhash": ["CIBHash"],
            "cnnh": ["CNNH"],
            "cosdish": ["COSDISH"],
            "csq": ["CSQ"],
            "ddsh": ["DDSH", "DDSH0", "DDSHMAC"],
            "dgh": ["DGH"],
            "dhn": ["DHN"],
            "dpn": ["DPN"],
            "dpsh": ["DPSH"],
            "dsch": ["DSCH"],
            "dsdh": ["DSDH"],
            "dsh": ["DSH"],
            "dsrh": ["DSRH"],
            "dtsh": ["DTSH"],
            "fasth": ["FastH"],
            "greedyhash": ["GreedyHash"],
            "hashnet": ["HashNet"],
            "imh": ["IMH"],
            "isohash": ["IsoHash"],
            "itq": ["ITQ"],
            "klsh": ["KLSH"],
            "ksh": ["KSH"],
            "lfh": ["LFH"],
            "losses": ["HingeLoss", "L2Loss", "LogisticLoss", "PairLoss", "TripletLoss"],
            "lsh": ["LSH"],
            "nhl": ["NHL"],
            "ninh": ["NINH"],
            "orthohash": ["OrthoHash"],
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
    "METHODS",
    "NHL",
    "NINH",
    "SDH",
    "SH",
    "SPH",
    "STH",
    "TSH",
    "AFFHash",
    "BiHalf",
    "CIBHash",
    "DeepHasher",
    "FastH",
    "GreedyHash",
    "HashNet",
    "Hasher",
    "HingeLoss",
    "IsoHash",
    "L2Loss",
    "LogisticLoss",
    "MethodCard",
    "OrthoHash",
    "PairLoss",
    "SemanticHashing",
    "Training",
    "TrainingStep",
    "TripletLoss",
    "TwoStepHasher",
    "get_method",
    "joined",
    "method_names",
]
