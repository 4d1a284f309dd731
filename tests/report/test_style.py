import itertools

import numpy as np

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


# Machado, Oliveira and Fernandes, 2009: full deuteranopia and protanopia.
VISION = {
    "normal": np.eye(3),
    "no green": [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]],
    "no red": [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
}
XYZ = [[0.4124564, 0.3575761, 0.1804375], [0.2126729, 0.7151522, 0.0721750], [0.0193339, 0.1191920, 0.9503041]]


def _lab(colour, vision):
    """CIELAB of a colour as it is seen."""
    rgb = np.array([int(colour[place : place + 2], 16) for place in (1, 3, 5)]) / 255
    rgb = np.clip(VISION[vision] @ rgb, 0, 1)
    linear = np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)
    x, y, z = np.array(XYZ) @ linear / [0.95047, 1, 1.08883]
    x, y, z = (np.cbrt(value) if value > 0.008856 else 7.787 * value + 16 / 116 for value in (x, y, z))
    return np.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])


def _distance(one, other):
    """The least distance of two colours in any kind of vision."""
    return min(np.linalg.norm(_lab(one, vision) - _lab(other, vision)) for vision in VISION)


def test_no_two_colours_are_nearer_than_the_nearest_of_okabe_and_ito():
    nearest = min(_distance(*pair) for pair in itertools.combinations(PALETTE[:6], 2))
    assert min(_distance(*pair) for pair in itertools.combinations(PALETTE, 2)) == nearest > 15
