"""Honest scores: exact tie handling, named conventions, the query set touched once."""

from ddsh.evaluation.files import LabelledCodes
from ddsh.evaluation.metrics import Curve
from ddsh.evaluation.results import Result, evaluate, score_fitted
from ddsh.evaluation.scores import PrecisionRecall, Scores, score

__all__ = ["Curve", "LabelledCodes", "PrecisionRecall", "Result", "Scores", "evaluate", "score", "score_fitted"]
