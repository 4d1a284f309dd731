"""Honest scores: exact tie handling, named conventions, the query set touched once."""

from ddsh.evaluation.files import LabelledCodes
from ddsh.evaluation.metrics import Curve
from ddsh.evaluation.results import Extractor, Machine, Result, evaluate, score_fitted
from ddsh.evaluation.scores import PrecisionRecall, Scores, score

__all__ = [
    "Curve",
    "Extractor",
    "LabelledCodes",
    "Machine",
    "PrecisionRecall",
    "Result",
    "Scores",
    "evaluate",
    "score",
    "score_fitted",
]
