import pytest

from ddsh.report.paper import read_paper
from ddsh.report.runs import read_runs
from ddsh.report.sections import make_sections
from ddsh.report.sweep import sweep_chart, sweep_table, varying_settings


@pytest.fixture
def sweep(put, read, old_content):
    """A sweep of learning rates, solvers and batch sizes of two methods."""
    settings = {
        "ddsh-a": ("ddsh", 0.6, {"learning_rate": 0.1, "final_lr": 0.001, "batch_size": 64}, "clustering"),
        "ddsh-b": ("ddsh", 0.8, {"learning_rate": 0.2, "final_lr": 0.002, "batch_size": 64}, "local"),
        "dsh-a": ("dsh", 0.7, {"learning_rate": 0.1, "final_lr": 0.001, "batch_size": 32}, None),
    }
    for label, (method, score, training, solver) in settings.items():
        params = {"n_bits": 12, "seed": 0, "weights": label, "training": training}
        if solver:
            params["solver"] = solver
        content = old_content(label, 12, 0, score, experiment="choose-cifar10", params=params)
        put(content | {"method": method})
    params = {"training": {"learning_rate": 0.1, "final_lr": 0.001, "batch_size": 64}}
    put(old_content("ddsh-c", 12, 0, 0.5, experiment="choose-cifar10", params=params) | {"method": "ddsh"})
    [section] = make_sections(read_runs(read()[0])[0], read_paper())
    return section


def test_settings_that_differ_within_a_method_are_found_however_deep(sweep):
    settings = varying_settings(sweep)
    assert set(settings) == {"learning_rate", "solver"}
    assert settings["solver"] == {("ddsh-a", 12): "clustering", ("ddsh-b", 12): "local", ("ddsh-c", 12): None}


def test_the_table_is_sorted_best_first_with_settings_as_columns(sweep):
    table = sweep_table(sweep, read_paper()).select(["label", "MAP", "method", "learning rate", "solver"])
    assert [[cell.text for cell in row] for row in table.cells] == [
        ["ddsh-b", "0.8000", "DDSH", "0.2", "local"],
        ["dsh-a", "0.7000", "DSH", "0.1", "–"],
        ["ddsh-a", "0.6000", "DDSH", "0.1", "clustering"],
        ["ddsh-c", "0.5000", "DDSH", "0.1", "default"],
    ]
    assert [row[1].is_best for row in table.cells] == [True, False, False, False]


def test_the_chart_has_a_panel_for_each_setting_and_a_series_for_each_method(sweep):
    chart = sweep_chart(sweep)
    assert [(panel.x_name, panel.ticks) for panel in chart.panels] == [
        ("learning rate", (0.1, 0.2)),
        ("solver", ("clustering", "default", "local")),
    ]
    [ddsh, dsh] = chart.panels[0].series
    assert (ddsh.label, sorted(zip(ddsh.x, ddsh.y, strict=True))) == ("ddsh", [(0.1, 0.5), (0.1, 0.6), (0.2, 0.8)])
    assert dsh.tips == ("dsh-a: MAP 0.7000, learning_rate = 0.1",)


def test_a_sweep_is_a_table_and_one_figure_in_the_page(sweep, page):
    text = page(["svg"])
    assert text.count('class="chart') == 1
    assert 'class="sweep"' in text
    assert "Precision at k" not in text
