"""Model: images in, codes out, for every kind of method."""

import copy
import hashlib
import json
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image as Pillow
from safetensors.numpy import load_file
from safetensors.numpy import save as to_safetensors
from sklearn.exceptions import NotFittedError

import ddsh
from ddsh import model as model_module
from ddsh.backbones import Backbone
from ddsh.backbones.network import Network
from ddsh.codes import BinaryCodes
from ddsh.errors import ArtefactError, DdshError, InvalidInput, UnknownName
from ddsh.images import as_images
from ddsh.methods import COSDISH, ITQ, LSH, SDH
from ddsh.methods.training import Training
from ddsh.model import Model, pixel_features

pytest.importorskip("torch")

FAST = Training(epochs=2, learning_rate=0.1, batch_size=16)
KINDS = {
    "pixels": lambda: Model(SDH(8, n_anchors=20)),
    "backbone": lambda: Model(ITQ(8), "small"),
    "deep": lambda: Model(ddsh.DDSH(8, n_omega=10, training=FAST), "small"),
    "look": lambda: Model(None, "small"),
    "cosdish cnn": lambda: Model(COSDISH(8, extension={"kind": "cnn", "training": {"epochs": 1}}), "small"),
}
by_kind = pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "look"])


@pytest.fixture(scope="module")
def images():
    """Forty images of four textures, and their classes."""
    rng = np.random.default_rng(0)
    labels = np.arange(40) % 4
    textures = rng.integers(0, 150, (4, 12, 12, 3))
    return (textures[labels] + rng.integers(0, 100, (40, 12, 12, 3))).astype(np.uint8), labels


@pytest.fixture(scope="module")
def folder(images, tmp_path_factory):
    """The same images as files, in order."""
    place = tmp_path_factory.mktemp("images")
    for number, image in enumerate(images[0]):
        Pillow.fromarray(image).save(place / f"{number:03}.png")
    return place


@pytest.fixture(scope="module")
def fitted(images):
    """One fitted model of each kind, made when it is first needed."""
    made = {}

    def get(kind):
        if kind not in made:
            made[kind] = KINDS[kind]().fit(*images)
        return made[kind]

    return get


def _forms(images, folder, tmp_path):
    np.save(tmp_path / "images.npy", images)
    paths = sorted(folder.iterdir())
    return {
        "array": images,
        "memory map": np.load(tmp_path / "images.npy", mmap_mode="r"),
        "folder as str": str(folder),
        "folder as Path": Path(folder),
        "list of str": [str(path) for path in paths],
        "list of Path": paths,
        "Pillow images": [Pillow.fromarray(image) for image in images],
        "list of arrays": list(images),
        "Images": as_images(images),
    }


@by_kind
def test_images_are_encoded_in_every_form(fitted, images, folder, tmp_path, kind):
    model = fitted(kind)
    outputs, codes = model.project(images[0]), model.encode(images[0])
    assert isinstance(codes, BinaryCodes)
    assert outputs.shape == (40, 8)
    assert np.array_equal(codes.bits(), outputs > 0)
    for name, form in _forms(images[0], folder, tmp_path).items():
        assert model.encode(form) == codes, name
        assert np.array_equal(model.project(form), outputs), name


@by_kind
def test_a_model_learns_from_images_in_every_form(fitted, images, folder, tmp_path, kind):
    codes = fitted(kind).encode(images[0])
    for name, form in _forms(images[0], folder, tmp_path).items():
        if name in ("memory map", "folder as str", "list of Path", "Pillow images"):
            model = KINDS[kind]()
            assert model.fit(form, images[1]) is model
            assert model.encode(images[0]) == codes, name


@by_kind
def test_one_image_has_one_code(fitted, images, folder, kind):
    model = fitted(kind)
    first = model.encode(images[0][:1])
    assert len(first) == 1
    assert model.encode(str(folder / "000.png")) == model.encode(Pillow.fromarray(images[0][0])) == first


@by_kind
@pytest.mark.parametrize("as_path", [str, Path])
def test_a_model_survives_a_folder(fitted, images, tmp_path, kind, as_path):
    model = fitted(kind)
    model.save(as_path(tmp_path / "new" / "model"), {"dataset": "textures"})
    loaded = Model.load(as_path(tmp_path / "new" / "model"))
    assert np.array_equal(loaded.project(images[0]), model.project(images[0]))
    assert loaded.fingerprint == model.fingerprint
    assert loaded.preprocessing == model.preprocessing
    assert loaded.about == {"dataset": "textures"}
    assert (loaded.name, loaded.n_bits, repr(loaded.backbone)) == (model.name, 8, repr(model.backbone))
    assert loaded.method.describe_params() == model.method.describe_params()
    with pytest.raises(InvalidInput, match="holds a model already"):
        model.save(as_path(tmp_path / "new" / "model"))


def test_facts_are_saved_again_with_a_loaded_model(fitted, tmp_path):
    fitted("pixels").save(tmp_path / "a", {"dataset": "textures"})
    Model.load(tmp_path / "a").save(tmp_path / "b")
    assert Model.load(tmp_path / "b").about == {"dataset": "textures"}


@by_kind
def test_the_fingerprint_changes_with_weights_and_with_preprocessing(fitted, images, kind, monkeypatch):
    model = fitted(kind)
    fingerprint = model.fingerprint
    assert fingerprint == KINDS[kind]().fit(*images).fingerprint
    assert fingerprint != KINDS[kind]().fit(images[0][:20], images[1][:20]).fingerprint
    monkeypatch.setattr(model_module, "PREPROCESSING_VERSION", model_module.PREPROCESSING_VERSION + 1)
    assert fingerprint != model.fingerprint


def test_the_fingerprint_changes_with_the_size_of_images(images):
    small, large = (Model(LSH(8), Backbone("small", image_size=size)).fit(images[0]) for size in (32, 40))
    assert small.preprocessing["image_size"] == 32
    assert small.fingerprint != large.fingerprint


@by_kind
def test_progress_counts_all_images(fitted, images, kind, monkeypatch):
    monkeypatch.setattr(model_module, "_BLOCK_ROWS", 16)
    calls = []
    fitted(kind).encode(images[0], lambda done, total: calls.append((done, total)))
    assert calls == [(16, 40), (32, 40), (40, 40)]


@pytest.mark.parametrize("kind", ["deep", "cosdish cnn"])
def test_a_model_with_a_network_has_history_and_reports_steps(images, tmp_path, kind):
    steps = []
    model = KINDS[kind]().fit(*images, checkpoints=str(tmp_path / "checkpoints"), on_step=steps.append)
    assert [epoch["epoch"] for epoch in model.history] == list(range(1, steps[-1].epochs + 1))
    assert steps[-1].done == steps[-1].total == len(steps)
    assert list((tmp_path / "checkpoints").glob("*.safetensors"))
    assert model.network is not None
    resumed = KINDS[kind]().fit(*images, checkpoints=tmp_path / "checkpoints", resume=True)
    assert resumed.encode(images[0]) == model.encode(images[0])


@pytest.mark.parametrize("kind", ["pixels", "backbone"])
def test_a_model_without_a_network_of_its_own_has_no_history(fitted, kind):
    assert fitted(kind).network is None
    assert fitted(kind).history == []


@by_kind
def test_a_clone_is_unfitted_and_learns_the_same(fitted, images, kind):
    cloned = fitted(kind).clone()
    assert repr(cloned) == repr(fitted(kind))
    assert not cloned.method._is_fitted()
    assert cloned.fit(*images).encode(images[0]) == fitted(kind).encode(images[0])


def test_a_prepared_image_has_the_same_code(fitted, images, folder):
    for kind in KINDS:
        model = fitted(kind)
        prepared = model.prepare(images[0][7])
        assert model.encode_pair(prepared[None]) == model.encode_pair(images[0][7:8])
        assert kind == "pixels" or prepared.shape == (32, 32, 3)


def test_pixels_of_another_size_are_refused_in_one_line(fitted):
    with pytest.raises(
        InvalidInput, match=r"^9 x 8 pixels in 3 channels are 216 values, but the model takes 432; train"
    ):
        fitted("pixels").prepare(np.zeros((8, 9, 3), np.uint8))
    with pytest.raises(InvalidInput, match="2 different sizes"):
        pixel_features(as_images([np.zeros((8, 8, 3), np.uint8), np.zeros((9, 8, 3), np.uint8)]))


def test_a_grey_model_takes_grey_images_decoded_to_colour(rng):
    grey = rng.integers(0, 256, (20, 6, 6, 1), np.uint8)
    model = Model(LSH(8)).fit(grey)
    prepared = model.prepare(np.repeat(grey[0], 3, axis=2))
    assert np.array_equal(prepared, grey[0])


@pytest.mark.parametrize(
    ("model", "text"),
    [
        (Model(LSH(16)), "Model(LSH(n_bits=16))"),
        (Model(LSH(16), "small"), "Model(LSH(n_bits=16), Backbone('small', image_size=32))"),
        (Model("lsh"), "Model(LSH())"),
    ],
)
def test_the_repr_is_short(model, text):
    assert repr(model) == text


@by_kind
def test_the_repr_of_a_fitted_model_is_one_short_line(fitted, kind):
    assert len(" ".join(repr(fitted(kind)).split())) < 400


def test_methods_and_backbones_are_given_by_name_or_as_objects():
    assert Model("itq", "small").backbone == Model(ITQ(), Backbone("small")).backbone
    assert Model(ddsh.DDSH(8, backbone="small")).backbone.name == "small"
    assert Model(ddsh.DDSH(8), "small").method.trained_backbone.name == "small"
    assert Model(LSH(8)).backbone is None
    with pytest.raises(UnknownName, match="Did you mean 'itq'"):
        Model("itk")
    with pytest.raises(InvalidInput, match=r"A method is a name or a ddsh\.Hasher"):
        Model(7)


def test_a_method_of_another_module_survives_a_folder(images, tmp_path, monkeypatch):
    (tmp_path / "my_hashing.py").write_text(
        "from dataclasses import replace\n"
        "from ddsh.methods import LSH\n"
        "class Mine(LSH):\n"
        "    card = replace(LSH.card, name='mine')\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    model = Model("my_hashing:Mine", "small").fit(images[0])
    model.save(tmp_path / "model")
    assert json.loads((tmp_path / "model" / "model.json").read_text())["method"] == "my_hashing:Mine"
    loaded = Model.load(tmp_path / "model")
    assert loaded.encode(images[0]) == model.encode(images[0])
    assert loaded.fingerprint == model.fingerprint
    assert type(loaded.method) is type(model.method)
    sys.modules.pop("my_hashing")


def _without_look(model):
    """A copy of a fitted model as versions before 3 had it."""
    copied = copy.copy(model)
    copied.look = None
    return copied


def _as_version_1(folder, change):
    """Rewrite a saved model as version 1 had it."""
    path = folder / "model.json"
    content = json.loads(path.read_text())
    backbone = content.pop("backbone")
    content["version"] = 1
    del content["look"]
    content["fingerprint"] = content.pop("weights")
    assert content["fingerprint"] == hashlib.sha256((folder / "model.safetensors").read_bytes()).hexdigest()
    old = {"network": None, "image_size": None, "weights": None, "n_frozen": 0}
    if backbone:
        old |= {"network": backbone["name"], "image_size": backbone["image_size"], "n_frozen": backbone["n_frozen"]}
    change(content, old)
    path.write_text(json.dumps(content))


def _passes(training):
    training["passes"], training["final_rate"] = training.pop("epochs"), training.pop("final_lr")


def _old_deep(content, network):
    content["params"] |= network | {"device": "auto", "memory": None}
    _passes(content["params"]["training"])


def _old_extension(content, network):
    content["params"]["extension"] |= network | {"device": "auto", "memory": None}
    _passes(content["params"]["extension"]["training"])


def _old_features(content, network):
    content["about"]["features"] = {name: value for name, value in network.items() if name != "n_frozen"}


@pytest.mark.parametrize(
    ("kind", "change"),
    [
        ("pixels", lambda content, network: None),
        ("backbone", _old_features),
        ("deep", _old_deep),
        ("cosdish cnn", _old_extension),
    ],
)
def test_a_model_of_version_1_is_read(fitted, images, tmp_path, kind, change):
    model = _without_look(fitted(kind))
    model.save(tmp_path, {"dataset": "textures"})
    _as_version_1(tmp_path, change)
    loaded = Model.load(tmp_path)
    assert np.array_equal(loaded.project(images[0]), model.project(images[0]))
    assert loaded.fingerprint == model.fingerprint
    assert loaded.about == {"dataset": "textures"}
    assert loaded.method.describe_params() == model.method.describe_params()


def test_a_model_of_version_2_is_read_and_can_get_look_bits(fitted, images, tmp_path):
    model = _without_look(fitted("deep"))
    model.save(tmp_path / "old")
    path = tmp_path / "old" / "model.json"
    content = json.loads(path.read_text()) | {"version": 2}
    del content["look"]
    path.write_text(json.dumps(content))
    loaded = Model.load(tmp_path / "old")
    assert (loaded.look_bits, loaded.fingerprint) == (0, fitted("deep").label_fingerprint)
    assert loaded.encode_pair(images[0]).look is None
    loaded.fit_look(images[0])
    assert loaded.encode_pair(images[0]) == fitted("deep").encode_pair(images[0])
    assert loaded.fingerprint == fitted("deep").fingerprint


WITH_LOOK = ("backbone", "deep", "cosdish cnn", "look")


@pytest.mark.parametrize("kind", WITH_LOOK)
def test_both_codes_come_from_one_forward_pass(fitted, images, kind, monkeypatch):
    model = fitted(kind)
    seen = []
    begin = Network.begin
    monkeypatch.setattr(Network, "begin", lambda self, pixels, n: seen.append(len(pixels)) or begin(self, pixels, n))
    pair = model.encode_pair(images[0])
    assert sum(seen) == 40
    assert pair.look.bits().shape == (40, 128)
    if kind == "look":
        assert pair.label is None
    else:
        assert pair.label == model.encode(images[0])


@pytest.mark.parametrize("kind", WITH_LOOK)
def test_look_bits_survive_a_folder(fitted, images, tmp_path, kind):
    model = fitted(kind)
    model.save(tmp_path / "model")
    loaded = Model.load(tmp_path / "model")
    assert loaded.look_bits == 128
    assert loaded.encode_pair(images[0]) == model.encode_pair(images[0])
    assert loaded.fingerprint == model.fingerprint != model.label_fingerprint


@pytest.mark.parametrize("kind", WITH_LOOK)
def test_look_bits_are_the_same_in_every_run(fitted, images, kind):
    assert KINDS[kind]().fit(*images).encode_pair(images[0]) == fitted(kind).encode_pair(images[0])


def test_look_bits_do_not_change_label_bits(fitted, images):
    without = Model(ddsh.DDSH(8, n_omega=10, training=FAST), "small", look_bits=0).fit(*images)
    assert without.look_bits == 0
    assert np.array_equal(without.project(images[0]), fitted("deep").project(images[0]))
    assert without.fingerprint == fitted("deep").label_fingerprint
    assert without.encode_pair(images[0]).label == fitted("deep").encode_pair(images[0]).label


def test_a_cache_of_frozen_stages_changes_no_code(images, tmp_path):
    codes = []
    for cache_dir in (None, tmp_path):
        backbone = Backbone("small", n_frozen=1, cache_dir=cache_dir)
        codes.append(Model(ddsh.DDSH(8, n_omega=10, training=FAST), backbone).fit(*images).encode_pair(images[0]))
    assert codes[0] == codes[1]


def test_a_model_without_a_method_has_look_bits_only(fitted, images):
    model = fitted("look")
    assert (model.n_bits, model.look_bits, model.name) == (0, 128, "look")
    with pytest.raises(InvalidInput, match="has look bits only: use encode_pair"):
        model.encode(images[0])
    with pytest.raises(InvalidInput, match="look bits only, which have no scores"):
        ddsh.evaluate(model.clone(), "sample")
    with pytest.raises(InvalidInput, match="give look_bits of 1 or more"):
        Model(None, "small", look_bits=0)
    with pytest.raises(NotFittedError, match="not fitted yet"):
        Model(None, "small").save("nowhere")


def test_a_model_on_pixels_has_no_look_bits(fitted, images):
    assert fitted("pixels").look_bits == 0
    assert fitted("pixels").encode_pair(images[0]).look is None
    with pytest.raises(InvalidInput, match="on pixels has no look bits"):
        fitted("pixels").fit_look(images[0])


def test_too_many_look_bits_are_refused():
    with pytest.raises(InvalidInput, match="look_bits must be 1 to 1024, or 0 for none; got 2000"):
        Model("lsh", "small", look_bits=2000)


@pytest.mark.parametrize("version", [0, 7, None, "1"])
def test_a_model_of_another_version_is_refused(fitted, tmp_path, version):
    fitted("pixels").save(tmp_path)
    content = json.loads((tmp_path / "model.json").read_text()) | {"version": version}
    (tmp_path / "model.json").write_text(json.dumps(content))
    with pytest.raises(ArtefactError, match=f"has version {version}; this ddsh reads version 6"):
        Model.load(tmp_path)


def test_a_folder_without_a_model_is_refused_in_one_line(tmp_path):
    with pytest.raises(ArtefactError, match=r"holds no model \(model\.json is missing\)"):
        Model.load(str(tmp_path))


def test_weights_of_another_model_are_refused(fitted, tmp_path):
    fitted("pixels").save(tmp_path / "a")
    fitted("backbone").save(tmp_path / "b")
    (tmp_path / "a" / "model.safetensors").write_bytes((tmp_path / "b" / "model.safetensors").read_bytes())
    with pytest.raises(ArtefactError, match=r"is not the file that model\.json describes"):
        Model.load(tmp_path / "a")


def test_a_calibration_is_saved_with_the_model_and_older_models_have_none(tmp_path, rng):
    images = rng.integers(0, 256, (150, 16, 16, 3), dtype=np.uint8)
    model = Model(None, "small", 32).fit(images)
    assert model.calibration.meaning == "copies"
    assert model.calibration.n_queries == 30, "a fifth of the images"
    model.save(tmp_path / "new")
    assert Model.load(tmp_path / "new").calibration == model.calibration
    content = json.loads((tmp_path / "new" / "model.json").read_text())
    del content["calibration"]
    (tmp_path / "new" / "model.json").write_text(json.dumps(content | {"version": 3}))
    old = Model.load(tmp_path / "new")
    assert old.calibration is None
    assert old.fingerprint == model.fingerprint, "codes do not depend on it"
    old.calibration = model.calibration
    old.save_calibration(tmp_path / "new")
    assert Model.load(tmp_path / "new").calibration == model.calibration


def test_a_calibration_of_an_earlier_distance_of_both_codes_is_dropped(tmp_path, rng):
    model = Model(None, "small", 32).fit(rng.integers(0, 256, (150, 16, 16, 3), dtype=np.uint8))
    curve = model.calibration.curves["look"]
    for curves, is_kept in (({"look": curve}, True), ({"look": curve, "both": curve}, False)):
        model.calibration = model.calibration.model_copy(update={"curves": curves})
        folder = tmp_path / str(is_kept)
        model.save(folder)
        content = json.loads((folder / "model.json").read_text())
        (folder / "model.json").write_text(json.dumps(content | {"version": 5}))
        assert Model.load(folder).calibration == (model.calibration if is_kept else None)


def test_few_images_are_not_enough_for_a_calibration(rng):
    images = rng.integers(0, 256, (40, 16, 16, 3), dtype=np.uint8)
    assert Model(None, "small", 32).fit(images).calibration is None


def test_weights_of_a_type_that_numpy_lacks_are_refused_in_one_line(tmp_path):
    Model(LSH(8)).fit(np.zeros((4, 8, 8, 3), np.uint8)).save(tmp_path)
    header = json.dumps({"mean_": {"dtype": "BF16", "shape": [1], "data_offsets": [0, 2]}}).encode()
    (tmp_path / "model.safetensors").write_bytes(len(header).to_bytes(8, "little") + header + bytes(2))
    # Another package may have taught NumPy the type; then it is not the file of the model.
    with pytest.raises(ArtefactError, match=r"missing or damaged|not the file that"):
        Model.load(tmp_path)


def _cut(array):
    """Return arrays of other shapes than the given one."""
    cut = [array[None], array.reshape(-1)[:0], np.zeros((), array.dtype), array.reshape(-1)[:-1]]
    cut += [array[..., :-1], array[:-1], array.T] if array.ndim == 2 else []
    return [np.ascontiguousarray(other).reshape(other.shape) for other in cut if other.shape != array.shape]


@pytest.mark.parametrize("kind", [*KINDS, "trees"])
def test_weights_of_other_shapes_are_refused_in_one_line(kind, fitted, images, tmp_path):
    if kind == "trees":
        pytest.importorskip("lightgbm")
        model = Model(COSDISH(8, extension={"kind": "trees", "n_trees": 1}), "small").fit(*images)
    else:
        model = fitted(kind)
    model.save(tmp_path)
    whole = load_file(tmp_path / "model.safetensors")
    manifest = json.loads((tmp_path / "model.json").read_text())
    messages = []
    some = sorted(whole)[:: max(1, len(whole) // 6)]
    for name in some:
        others = [whole | {name: other} for other in _cut(whole[name])]
        others.append({other: whole[other] for other in whole if other != name})
        for weights in others:
            data = to_safetensors(weights)
            (tmp_path / "model.safetensors").write_bytes(data)
            content = manifest | {"weights": hashlib.sha256(data).hexdigest()}
            (tmp_path / "model.json").write_text(json.dumps(content))
            try:
                Model.load(tmp_path).encode_pair(images[0][:2])
            except DdshError as error:
                messages.append(str(error))
    assert len(messages) > 3 * len(some)
    assert not any("\n" in message for message in messages)
