"""Experiments: a TOML file becomes a grid of runs, each run one JSON in a results folder."""

from ddsh.experiment.plan import Plan, plan
from ddsh.experiment.provenance import commit_of, this_machine
from ddsh.experiment.reading import find_spec, read_spec
from ddsh.experiment.runner import Outcome, Watcher, run, write_result
from ddsh.experiment.spec import Method, Quick, Run, Spec
from ddsh.experiment.tune import Trial, rate_grid, tune

__all__ = [
    "Method",
    "Outcome",
    "Plan",
    "Quick",
    "Run",
    "Spec",
    "Trial",
    "Watcher",
    "commit_of",
    "find_spec",
    "plan",
    "rate_grid",
    "read_spec",
    "run",
    "this_machine",
    "tune",
    "write_result",
]
