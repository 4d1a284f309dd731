"""Experiments: a TOML file becomes a grid of runs, each run one JSON in a results folder."""

from ddsh.experiment.runner import run
from ddsh.experiment.spec import Run, Spec, read_spec
from ddsh.experiment.tune import Trial, rate_grid, tune

__all__ = ["Run", "Spec", "Trial", "rate_grid", "read_spec", "run", "tune"]
