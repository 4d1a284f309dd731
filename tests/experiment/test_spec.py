import pytest

from ddsh.datasets import get_protocol, load
from ddsh.errors import InvalidInput, UnknownName
from ddsh.experiment import BackboneSpec, QuickSpec, find_spec, read_spec

SMALLEST = 'dataset = "sample"\nprotocol = "sample"\nbits = [8, 12]\nseeds = [0, 1]\n'


@pytest.fixture
def spec_of(tmp_path):
    def read(text, methods="[methods.lsh]\n"):
        path = tmp_path / "x.toml"
        path.write_text(SMALLEST + text + methods)
        return read_spec(path)

    return read


def test_what_is_not_said_has_its_usual_value(spec_of):
    spec = spec_of("")
    assert (spec.name, spec.backbone, spec.examples) == ("x", None, ())
    assert {run.backbone for run in spec.runs()} == {None}
    assert spec.split_rule() == get_protocol("sample")


def test_everything_that_can_be_said_is_read(spec_of):
    spec = spec_of(
        'backbone = { name = "small-grey", image_size = 32, n_frozen = 0, weights = "w.mat" }\nexamples = [8]\n'
        "[quick]\nbits = [8]\nseeds = [0]\nn_train = 200\nn_query = 50\nn_database = 900\nepochs = 2\n"
    )
    assert spec.backbone == BackboneSpec(name="small-grey", image_size=32, n_frozen=0, weights="w.mat")
    assert spec.examples == (8,)
    assert spec.quick == QuickSpec(bits=(8,), seeds=(0,), n_query=50, n_train=200, n_database=900, epochs=2)


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("colour = 1\n", "colour: unknown"),
        (f"examples = [{'9' * 5000}]\n", "cannot be read as an experiment"),
        (f"{'.'.join('a' * 1000)} = 1\n", "dots"),
        ("examples = 1\n", "list of whole numbers"),
        ("backbone = 3\n", "backbone: Input should be"),
        ("backbone = { image_size = 0 }\n", "backbone.image_size"),
        ("backbone = { n_frozen = -1 }\n", "backbone.n_frozen"),
        ("quick = 3\n", "quick: Input should be"),
        ("[quick]\nfast = true\n", "quick.fast: unknown"),
        ("[quick]\nepochs = 0\n", "quick.epochs"),
        ("[quick]\nbits = []\n", "quick.bits"),
        ("[quick.methods]\nlsh = 3\n", "quick.methods.lsh"),
        ("[quick.methods.lhs]\n", "label in quick.methods"),
    ],
)
def test_what_cannot_be_is_refused_in_one_line(spec_of, text, word):
    with pytest.raises(InvalidInput, match=word) as caught:
        spec_of(text)
    assert "x.toml" in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("old", "new", "word"),
    [
        ("[8, 12]", "[8, 8]", "twice"),
        ("[8, 12]", "[2000]", "1024"),
        ("[8, 12]", "8", "list"),
        ("[0, 1]", "[true]", "whole number"),
        ("[0, 1]", "[-1]", "greater than or equal to 0"),
        ("[methods.lsh]", "[methods]", "at least one"),
        ("[methods.lsh]", '[methods."../lsh"]', "names a file"),
        ("[methods.lsh]", "[methods]\nlsh = 3", "methods.lsh must be a table"),
        ("[methods.lsh]", "[methods.lsh]\nmethod = 3", "methods.0.method: Input should be a valid string"),
        ('dataset = "sample"', "dataset = 3", "dataset: Input should be a valid string"),
    ],
)
def test_a_grid_that_cannot_be_is_refused(tmp_path, old, new, word):
    path = tmp_path / "x.toml"
    path.write_text((SMALLEST + "[methods.lsh]\n").replace(old, new))
    with pytest.raises(InvalidInput, match=word):
        read_spec(path)


def test_a_file_that_is_far_too_large_is_not_even_read(tmp_path):
    path = tmp_path / "x.toml"
    path.write_text("#" * 1_000_001)
    with pytest.raises(InvalidInput, match="1,000,000 bytes"):
        read_spec(path)
    with pytest.raises(InvalidInput, match="No such file"):
        read_spec(tmp_path / "y.toml")


def test_an_experiment_is_found_by_name_or_by_file(tmp_path):
    path = tmp_path / "table-1.toml"
    path.touch()
    assert find_spec("table-1", tmp_path) == path
    assert find_spec(str(path), tmp_path / "elsewhere") == path
    with pytest.raises(UnknownName, match="Did you mean 'table-1'"):
        find_spec("tabel-1", tmp_path)
    with pytest.raises(InvalidInput, match="table-1"):
        find_spec("table-1", tmp_path / "elsewhere")
    assert find_spec("sample-ddsh", tmp_path).name == "sample-ddsh.toml"  # comes with ddsh


def test_an_experiment_can_be_cut_down(spec_of):
    spec = spec_of("", '[methods.lsh]\n[methods.other]\nmethod = "lsh"\n')
    assert [run.title for run in spec.only(["other"]).with_bits([16, 16]).with_seeds(1).runs()] == [
        "other, 16 bits, seed 0"
    ]
    assert spec.with_seeds(4).seeds == (0, 1, 2, 3)
    assert spec.with_seeds(1).seeds == (0,)
    with pytest.raises(UnknownName, match="Did you mean 'other'"):
        spec.only(["othr"])


def test_another_backbone_takes_the_place_of_all_that_was_said_of_the_old_one(spec_of):
    methods = '[methods.ddsh]\nbackbone = { name = "small", image_size = 40 }\nn_omega = 9\n'
    spec = spec_of('backbone = { name = "cnn-f", weights = "f.mat", n_frozen = 2 }\n', methods)
    changed = spec.with_backbone(name="small-grey", image_size=28)
    assert next(run.backbone for run in spec.runs()) == {
        "name": "small",
        "image_size": 40,
        "weights": "f.mat",
        "n_frozen": 2,
    }
    assert {tuple(run.backbone.items()) for run in changed.runs()} == {(("name", "small-grey"), ("image_size", 28))}
    assert changed.methods[0].params == {"n_omega": 9}


def test_a_quick_look_changes_what_it_names_and_is_kept_apart(spec_of, tmp_path):
    spec = spec_of("[quick]\nseeds = [5]\n").quicker()
    assert (spec.bits, spec.seeds) == ((8, 12), (5,))
    assert spec.split_rule() == get_protocol("sample")
    assert spec.folder(tmp_path) == tmp_path / "quick" / "x"
    usual = spec_of("").quicker()
    assert (usual.seeds, usual.split_rule().split(load("sample"), 0).protocol.name) == ((0,), "sample-quick")
    assert spec_of("").folder(tmp_path) == tmp_path / "x"


@pytest.fixture
def part_of(tmp_path):
    """Read a part of an experiment that has three methods, two lengths and a quick look at one of them."""
    (tmp_path / "whole.toml").write_text(
        SMALLEST + "[quick]\nbits = [8]\n[methods.lsh]\n[methods.itq]\n[methods.sdh]\n"
    )

    def read(text):
        path = tmp_path / "part.toml"
        path.write_text(text)
        return read_spec(path)

    return read


def test_a_part_keeps_its_results_among_those_of_the_whole(part_of, tmp_path):
    part = part_of('of = "whole"\nfigure = "map"\nlabels = ["sdh", "lsh"]\nbits = [12]\n')
    assert part.folder(tmp_path) == tmp_path / "whole"
    assert [(run.label, run.n_bits) for run in part.with_seeds(1).runs()] == [("lsh", 12), ("sdh", 12)]
    assert part.quicker().bits == (12,)
    assert part.figure == "map"


def test_a_part_without_choices_is_the_whole(part_of, tmp_path):
    assert part_of('of = "whole"\n') == read_spec(tmp_path / "whole.toml")


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ('of = "hole"\n', "hole.toml cannot be read"),
        ('of = "part"\n', "methods must be"),
        ("of = 3\n", "of: Input should be"),
        ('of = "whole"\nseeds = [1]\n', "seeds: unknown"),
        ('of = "whole"\nlabels = ["lhs"]\n', "Did you mean 'lsh'"),
        ('of = "whole"\nlabels = "lsh"\n', "labels: Input should be a valid list"),
        ('of = "whole"\nbits = [24]\n', "whole has 8, 12; got 24"),
    ],
)
def test_a_part_that_does_not_fit_is_refused_in_one_line(part_of, text, word):
    with pytest.raises(InvalidInput, match=word) as caught:
        part_of(text)
    assert "part.toml" in str(caught.value)
    assert "\n" not in str(caught.value)
