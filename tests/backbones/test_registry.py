import subprocess
import sys

import numpy as np
import pytest
import torch

from ddsh.backbones.base import preprocess
from ddsh.backbones.network import Network
from ddsh.backbones.registry import BACKBONES, build_network
from ddsh.backbones.weights import fingerprint
from ddsh.errors import DataError, InvalidInput, UnknownName

LIGHT = ["efficientnet-lite0", "efficientnet-lite1", "efficientnet-lite2", "small", "small-grey"]


def _run(code):
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout


def test_listing_the_backbones_imports_nothing_heavy():
    loaded = set(_run("import sys, ddsh.backbones; print(*sys.modules)").split())
    assert "ddsh.backbones" in loaded
    assert not loaded & {"torch", "numpy", "scipy", "PIL"}


def test_without_pytorch_one_line_says_what_to_install():
    code = (
        "import sys; sys.modules['torch'] = None\n"
        "from ddsh.errors import DdshError\n"
        "from ddsh.backbones.registry import build_network\n"
        "try: build_network('small')\n"
        "except DdshError as error: print(error)"
    )
    assert _run(code) == "The backbone small needs PyTorch. Run: pip install 'ddsh[deep]'\n"


@pytest.mark.parametrize("card", BACKBONES.values(), ids=lambda card: card.name)
def test_a_card_names_a_builder_that_is_there(card):
    module, function = card.builder.split(":")
    assert callable(getattr(__import__(module, fromlist=[function]), function))
    assert BACKBONES[card.name] is card
    assert card.title
    assert "\n" not in card.weights


@pytest.mark.parametrize("name", LIGHT)
def test_a_card_is_true_of_what_is_built(name):
    network = build_network(name, pretrained=False)
    card = BACKBONES[name]
    assert (network.image_size, network.n_features, network.training) == (card.image_size, card.n_features, False)
    pixels = torch.zeros(1, network.image_size, network.image_size, network.n_channels, dtype=torch.uint8)
    assert network(pixels).shape == (1, card.n_features)


@pytest.mark.parametrize("name", LIGHT)
def test_the_same_seed_gives_the_same_weights_and_moves_no_global_generator(name):
    before = torch.random.get_rng_state()
    first, second, other = (fingerprint(build_network(name, pretrained=False, seed=seed)) for seed in (1, 1, 2))
    assert first == second
    assert first != other
    assert torch.equal(torch.random.get_rng_state(), before)


def test_the_checksums_on_the_cards_are_the_builders():
    from ddsh.backbones import alexnet, cnnf
    from ddsh.backbones.efficientnet_lite import SCALES

    assert [BACKBONES[f"efficientnet-lite{i}"].sha256 for i in SCALES] == [scale.sha256 for scale in SCALES.values()]
    assert (BACKBONES["alexnet"].sha256, BACKBONES["alexnet"].weights) == (alexnet.SHA256, alexnet.ADDRESS)
    assert BACKBONES["cnn-f"].weights == cnnf.ADDRESS


def test_an_unknown_name_gets_the_nearest():
    with pytest.raises(UnknownName, match=r"Unknown backbone 'alexnt'\. Did you mean 'alexnet'\?"):
        build_network("alexnt")


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("small", {"weights": "a.pth"}, "small is trained from scratch and takes no weights; got a.pth"),
        ("cnn-f", {"weights": "a.mat", "pretrained": False}, "contradict each other"),
        ("small", {"n_features": 64}, "small has 256 features; got n_features=64"),
        ("alexnet", {"n_features": 0, "pretrained": False}, "got n_features=0"),
        ("small", {"image_size": 7}, "image_size must be 8 to 4096; got 7"),
        ("efficientnet-lite0", {"image_size": 5000, "pretrained": False}, "image_size must be 8 to 4096; got 5000"),
    ],
)
def test_options_that_do_not_fit_are_refused(name, options, message):
    with pytest.raises(InvalidInput, match=message):
        build_network(name, **options)


@pytest.mark.parametrize("name", ["cnn-f", "alexnet"])
def test_weights_that_do_not_come_with_the_package_are_asked_for_before_anything_is_built(name):
    with pytest.raises(DataError, match=rf"^{name} needs its weights: get https://\S+ and name the file with weights="):
        build_network(name)


def test_a_saved_network_of_open_width_is_built_again():
    saved = build_network("alexnet", image_size=64, pretrained=False, n_features=8, seed=1)
    again = build_network("alexnet", image_size=64, pretrained=False, n_features=saved.n_features)
    again.load_state_dict(saved.state_dict())
    assert fingerprint(again) == fingerprint(saved)


def test_images_of_any_shape_become_squares_of_the_right_channels(rng):
    images = [rng.integers(0, 256, shape, dtype=np.uint8) for shape in ((10, 20, 3), (8, 8, 1))]
    assert preprocess(images, 12, 3).shape == (2, 12, 12, 3)
    assert preprocess(images, 12, 1).shape == (2, 12, 12, 1)
    np.testing.assert_array_equal(preprocess(images[1:], 8, 1)[0], images[1])


@pytest.mark.parametrize("image", [np.zeros((4, 4, 3)), np.zeros((4, 4), np.uint8), np.zeros((4, 4, 2), np.uint8)])
def test_what_is_no_image_is_refused(image):
    with pytest.raises(InvalidInput, match="An image is uint8 of shape"):
        preprocess([image], 8, 3)


def test_a_network_that_defines_no_features_says_so():
    network = Network(8, 4, mean=np.zeros((1, 1, 1)), std=np.ones((1, 1, 1)))
    with pytest.raises(NotImplementedError):
        network(torch.zeros(1, 8, 8, 1, dtype=torch.uint8))
