"""Experiments: grids of runs from TOML files, one result per run."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ddsh.experiment.provenance import commit_of, this_machine
    from ddsh.experiment.runner import ExperimentListener, Outcome, Plan, build_model, plan, run
    from ddsh.experiment.spec import BackboneSpec, MethodSpec, QuickSpec, Run, Spec, find_spec, read_spec
    from ddsh.experiment.tuning import PAPER_RATES, Trial, rate_grid, search, try_rates, write_settings
else:
    import lazy_loader

    __getattr__, __dir__, _ = lazy_loader.attach(
        __name__,
        submod_attrs={
            "provenance": ["commit_of", "this_machine"],
            "runner": ["ExperimentListener", "Outcome", "Plan", "build_model", "plan", "run"],
            "spec": ["BackboneSpec", "MethodSpec", "QuickSpec", "Run", "Spec", "find_spec", "read_spec"],
            "tuning": ["PAPER_RATES", "Trial", "rate_grid", "search", "try_rates", "write_settings"],
        },
    )

__all__ = [
    "PAPER_RATES",
    "BackboneSpec",
    "ExperimentListener",
    "MethodSpec",
    "Outcome",
    "Plan",
    "QuickSpec",
    "Run",
    "Spec",
    "Trial",
    "build_model",
    "commit_of",
    "find_spec",
    "plan",
    "rate_grid",
    "read_spec",
    "run",
    "search",
    "this_machine",
    "try_rates",
    "write_settings",
]
