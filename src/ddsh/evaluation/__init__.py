"""Evaluation: exact retrieval scores with ties, and results."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ddsh.evaluation.bits import BitHealth, bit_health
    from ddsh.evaluation.evaluator import evaluate, evaluate_fitted
    from ddsh.evaluation.examples import Examples
    from ddsh.evaluation.labelled_codes import LabelledCodes
    from ddsh.evaluation.metrics import METRICS, Curve, Metric
    from ddsh.evaluation.outputs import Histogram, Reranked
    from ddsh.evaluation.result import (
        BackboneInfo,
        EpochRecord,
        Machine,
        Result,
        Spread,
        Summary,
        read_results,
        summarise,
    )
    from ddsh.evaluation.scores import PrecisionRecall, Scores, score
    from ddsh.evaluation.significance import Comparison, compare
else:
    import lazy_loader

    __getattr__, __dir__, _ = lazy_loader.attach(
        __name__,
        submod_attrs={
            "bits": ["BitHealth", "bit_health"],
            "evaluator": ["evaluate", "evaluate_fitted"],
            "examples": ["Examples"],
            "labelled_codes": ["LabelledCodes"],
            "metrics": ["METRICS", "Curve", "Metric"],
            "outputs": ["Histogram", "Reranked"],
            "result": [
                "BackboneInfo",
                "EpochRecord",
                "Machine",
                "Result",
                "Spread",
                "Summary",
                "read_results",
                "summarise",
            ],
            "scores": ["PrecisionRecall", "Scores", "score"],
            "significance": ["Comparison", "compare"],
        },
    )

__all__ = [
    "METRICS",
    "BackboneInfo",
    "BitHealth",
    "Comparison",
    "Curve",
    "EpochRecord",
    "Examples",
    "Histogram",
    "LabelledCodes",
    "Machine",
    "Metric",
    "PrecisionRecall",
    "Reranked",
    "Result",
    "Scores",
    "Spread",
    "Summary",
    "bit_health",
    "compare",
    "evaluate",
    "evaluate_fitted",
    "read_results",
    "score",
    "summarise",
]
