from ddsh.report.paper import read_paper
from ddsh.report.style import PALETTE, duration, make_styles, memory, shorten


def test_methods_of_the_paper_look_the_same_in_every_section():
    paper = read_paper()
    alone, together = make_styles(["lsh"], paper), make_styles(["lsh", "ddsh", "mine"], paper)
    assert alone["lsh"] == together["lsh"]
    assert len({style.number for style in together.values()}) == 3


def test_fifty_labels_differ_in_colour_marker_or_dashes():
    styles = make_styles([f"label-{number}" for number in range(50)], read_paper()).values()
    assert len({(style.colour, style.marker, style.dashes) for style in styles}) == 50
    assert len({style.colour for style in list(styles)[: len(PALETTE)]}) == len(PALETTE) == 12


def test_amounts_are_short():
    assert [duration(seconds) for seconds in (1.25, 90, 7500)] == ["1.2 s", "2 min", "2 h 05 min"]
    assert (memory(3 << 30), memory(None)) == ("3.0 GiB", "")
    assert shorten("a\0" + "x" * 500) == "a\N{REPLACEMENT CHARACTER}" + "x" * 118 + "…"
