"""Every file in experiments/ can be run, and what it is drawn as can be drawn."""

import re
from pathlib import Path

import pytest

from ddsh.backbones.registry import BACKBONES
from ddsh.datasets import DATASETS, load
from ddsh.evaluation import read_results
from ddsh.experiment import build_model, plan, read_spec
from ddsh.report import FIGURES

ROOT = Path(__file__).parents[2]
FILES = sorted((ROOT / "experiments").glob("*.toml"))
every_file = pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)


def test_there_are_experiments():
    assert {"map-cifar10", "map-svhn", "map-nuswide", "case-study-cifar10"} <= {path.stem for path in FILES}


@every_file
def test_its_dataset_protocol_and_backbone_are_known(path):
    spec = read_spec(path)
    assert spec.dataset in DATASETS
    assert spec.split_rule().name == re.sub(r"-(validation|learned-database|held-out-\d+)$", "", spec.protocol)
    assert spec.quicker().split_rule().name.startswith(spec.split_rule().name)
    assert spec.backbone is None or spec.backbone.name in BACKBONES


@every_file
def test_every_method_takes_its_parameters(path):
    spec = read_spec(path)
    for grid in (spec, spec.quicker()):
        for run in grid.with_seeds(1).runs():
            method = build_model(run, grid).method
            method._check_parameters()  # what fit asks first
            assert (method.card.name, method.n_bits) == (run.method, run.n_bits)
            assert getattr(method, "seed", run.seed) == run.seed  # some methods have nothing random


@every_file
def test_what_it_is_drawn_as_is_a_figure_of_the_report(path):
    spec = read_spec(path)
    assert spec.figure is None or spec.figure in FIGURES
    assert spec.figure != "case-study" or set(spec.bits) & set(spec.examples)


@every_file
def test_the_documentation_names_it(path):
    assert f"`{path.stem}`" in (ROOT / "docs" / "how-to" / "experiments.md").read_text()


@every_file
def test_the_results_that_come_with_the_code_fit_it(path, data_root):
    spec = read_spec(path)
    if spec.dataset != "nuswide":  # its images cannot be had
        plan(spec, load(spec.dataset, root=data_root), ROOT / "results")


def test_results_are_small_and_their_sheets_are_kept_for_one_seed():
    results, problems = read_results(ROOT / "results")
    assert len(results) > 250
    assert problems == []
    assert max(result.path.stat().st_size for result in results) < 60_000
    assert {result.seed for result in results if result.examples} == {0}
