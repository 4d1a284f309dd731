import pytest

from ddsh.report.paper import read_paper
from ddsh.report.runs import read_runs
from ddsh.report.sections import make_sections, missing_runs


@pytest.fixture
def sections(read):
    return lambda: make_sections(read_runs(read()[0])[0], read_paper())


def test_scores_are_averaged_over_seeds_and_put_beside_the_papers(put, sections, old_content):
    for seed, score in enumerate((0.70, 0.72, 0.80)):
        put(old_content("ddsh", 24, seed, score))
    put(old_content("lsh", 24, 0, 0.2))
    [section] = sections()
    cell = section.cells["ddsh", 24]
    assert cell.map.mean == pytest.approx(0.74)
    assert cell.map.deviation == pytest.approx(0.0529, abs=1e-4)
    assert cell.bounds == (pytest.approx(0.64), pytest.approx(0.84))
    assert (cell.seeds, cell.paper) == ((0, 1, 2), 0.829)
    assert section.best(24) == cell.map.mean
    assert (section.labels, section.bits, section.seeds) == (("ddsh", "lsh"), (24,), (0, 1, 2))


def test_a_missing_seed_and_a_missing_cell_are_one_line_each(put, sections, old_content):
    for n_bits in (12, 32):
        for seed in (0, 1):
            put(old_content("ddsh", n_bits, seed))
    put(old_content("dsh", 12, 0))
    put(old_content("lsh", 12, 0))
    put(old_content("lsh", 12, 1))
    put(old_content("lsh", 32, 0))
    assert missing_runs(sections()[0]) == [
        "map-cifar10: dsh at 12 bits: seed 1 missing.",
        "map-cifar10: dsh at 32 bits: no result.",
        "map-cifar10: lsh at 32 bits: seed 1 missing.",
    ]


def test_labels_with_the_same_gap_share_a_line(put, sections, old_content):
    for seed in (0, 1, 2):
        put(old_content("ddsh", 12, seed))
    for label in ("itq", "lsh"):
        put(old_content(label, 12, 0))
    assert missing_runs(sections()[0]) == ["map-cifar10: itq, lsh at 12 bits: seeds 1, 2 missing."]


def test_a_line_on_gaps_names_fourteen_labels_and_counts_the_others(put, sections, old_content):
    put(old_content("ddsh", 12, 0))
    put(old_content("ddsh", 12, 1))
    for number in range(20):
        put(old_content("lsh", 12, 0) | {"label": f"row-{number:02d}"})
    named = ", ".join(f"row-{number:02d}" for number in range(14))
    assert missing_runs(sections()[0]) == [f"map-cifar10: {named} and 6 more at 12 bits: seed 1 missing."]


def test_a_complete_section_has_no_missing_runs(put, sections, old_content):
    put(old_content("ddsh"))
    put(old_content("lsh"))
    assert missing_runs(sections()[0]) == []


def test_a_result_of_another_split_is_never_the_best(put, sections, old_content):
    put(old_content("ddsh", score=0.5))
    put(old_content("dsh", score=0.4))
    put(old_content("lsh", score=0.9, split="f" * 64))
    [section] = sections()
    assert section.cells["lsh", 12].of_other_split
    assert not section.cells["ddsh", 12].of_other_split
    assert section.best(12) == 0.5


def test_each_protocol_of_an_experiment_is_a_section(put, sections, old_content):
    put(old_content("ddsh"))
    put(old_content("ddsh", protocol="cifar10-quick"), "quick.json")
    assert [(section.protocol, section.is_papers) for section in sections()] == [
        ("cifar10", True),
        ("cifar10-quick", False),
    ]


def test_the_usual_length_is_the_one_most_labels_have_and_near_32_among_equals(put, sections, new_content):
    for n_bits in (12, 24, 48):
        put(new_content("ddsh", n_bits))
    put(new_content("dsh", 24))
    put(new_content("dsh", 48, examples=None))
    assert sections()[0].usual_bits(lambda run: run.examples) == 24
    put(new_content("dsh", 48))
    assert sections()[0].usual_bits(lambda run: run.examples) == 24
    put(new_content("lsh", 48))
    assert sections()[0].usual_bits(lambda run: run.examples) == 48
    assert sections()[0].usual_bits(lambda _: None) is None
