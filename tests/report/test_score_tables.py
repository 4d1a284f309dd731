import pytest

from ddsh.errors import UnknownName
from ddsh.report import markdown_table


def test_methods_by_bits_with_the_papers_in_brackets_and_the_best_in_bold(put, read, old_content):
    for seed, score in enumerate((0.80, 0.82)):
        put(old_content("ddsh", 12, seed, score))
    put(old_content("ddsh", 32, 0, 0.85))
    put(old_content("lsh", 12, 0, 0.15))
    put(old_content("my_own", 32, 0, 0.2))
    assert markdown_table(read()[0], "map-cifar10").splitlines() == [
        "| method | 12 bits | 32 bits |",
        "| --- | --- | --- |",
        "| DDSH | **0.810 ± 0.014** (0.769) | **0.850** (0.835) |",
        "| LSH | 0.150 (0.147) | – |",
        "| my_own | – | 0.200 |",
    ]


def test_a_quick_look_is_not_put_beside_the_paper(put, read, old_content):
    put(old_content("ddsh", protocol="cifar10-quick"))
    assert markdown_table(read()[0], "map-cifar10").splitlines()[-1] == "| DDSH | **0.500** |"


def test_an_experiment_with_two_protocols_gives_two_tables(put, read, old_content):
    put(old_content("ddsh"))
    put(old_content("ddsh", protocol="cifar10-quick"), "quick.json")
    assert markdown_table(read()[0], "map-cifar10").count("| method |") == 2


def test_an_unknown_experiment_is_refused_with_the_nearest_name(put, read, old_content):
    put(old_content())
    with pytest.raises(UnknownName, match="Did you mean 'map-cifar10'"):
        markdown_table(read()[0], "map-cifar")


def test_a_score_that_is_not_significantly_below_the_best_is_marked(put, read, page, new_content, rng):
    best = 0.4 + 0.2 * rng.random(200)
    noise = rng.normal(size=200)
    noisy, worse = best - 0.005 + 0.1 * (noise - noise.mean()), best - 0.05
    for label, values in (("ddsh", best), ("dsh", noisy), ("lsh", worse)):
        content = new_content(label, 12, 0, float(values.mean()))
        content["scores"] |= {"average_precision": values.tolist(), "n_query": 200}
        put(content)
    ddsh, dsh, lsh = markdown_table(read()[0], "map-cifar10").splitlines()[2:]
    assert "≈" in dsh
    assert "≈" not in ddsh + lsh
    text = page()
    assert text.count("≈ not significantly below") == 1
    assert text.count("significantly below the best") >= 1
    assert "below DDSH (p = 0.0001 over queries)" in text
