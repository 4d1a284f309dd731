import pytest

from ddsh.report.charts import CHARTS, FIGURES, make_charts
from ddsh.report.paper import read_paper
from ddsh.report.runs import read_runs
from ddsh.report.sections import make_sections


@pytest.fixture
def charts(read):
    def made():
        [section] = make_sections(read_runs(read()[0])[0], read_paper())
        return {chart.name: chart for chart in make_charts(section)}

    return made


def test_every_chart_is_made_of_a_full_result_and_none_of_a_bare_one(put, charts, new_content, bare_content):
    put(bare_content())
    assert charts() == {}
    put(new_content(n_bits=24))
    assert set(charts()) == set(CHARTS)
    assert set(FIGURES) == set(CHARTS) | {"case-study", "settings"}


def test_curves_are_means_over_seeds(put, charts, new_content):
    for seed, precision in enumerate((0.9, 0.7)):
        content = new_content(seed=seed)
        content["scores"]["precision_recall"]["by_rank"]["precision"] = [precision] * 4
        put(content)
    [series] = charts()["precision-recall-by-rank"].panels[0].series
    assert series.y == pytest.approx([0.8] * 4)


def test_a_figure_is_as_wide_whatever_its_number_of_panels():
    from ddsh.report.plot import _PANEL_SIZES

    widths = [columns * width for columns, (width, _) in enumerate(_PANEL_SIZES, start=1)]
    assert max(widths[1:]) / min(widths[1:]) < 1.4
