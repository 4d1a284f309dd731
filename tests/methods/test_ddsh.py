import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from scipy import sparse
from sklearn.base import clone
from torch import nn

from ddsh.backbones import Backbone
from ddsh.backbones.frozen import FrozenLayers
from ddsh.backbones.network import HashNetwork, Network
from ddsh.backbones.registry import build_network
from ddsh.datasets import load
from ddsh.errors import ArtefactError, InvalidInput, UnknownName
from ddsh.labels import PairLabels, SingleLabels, as_labels
from ddsh.methods._bqp import full_objective
from ddsh.methods._similarity import similarity
from ddsh.methods.cosdish import COSDISH
from ddsh.methods.ddsh import DDSH, DDSH0, DDSHMAC, PRESETS
from ddsh.methods.losses import L2Loss, LogisticLoss, as_loss
from ddsh.methods.training import Training
from ddsh.model import Model


class Tiny(Network):
    """A network small enough to train in a test."""

    def __init__(self) -> None:
        super().__init__(8, 12, mean=np.full((1, 1, 1), 128.0), std=np.full((1, 1, 1), 64.0))
        generator = torch.Generator().manual_seed(0)
        self.conv = nn.Conv2d(1, 12, 3, 2)
        for parameter in self.conv.parameters():
            parameter.data = 0.3 * torch.randn(parameter.shape, generator=generator)

    def stages(self) -> list[nn.Module]:
        return [nn.Sequential(self.conv, nn.ReLU()), nn.Sequential(nn.AdaptiveMaxPool2d(1), nn.Flatten())]


FAST = Training(epochs=6, learning_rate=0.5, final_lr=0.05, batch_size=32, momentum=0.9, flip=True)


@pytest.fixture
def images(rng):
    """Three kinds of textures with noise, more than usual here, and what they are."""
    labels = np.arange(150) % 3
    y, x = np.mgrid[:8, :8]
    kinds = np.stack([(x % 2), (y % 2), (x + y) % 2]) * 150.0
    noisy = kinds[labels] + rng.integers(0, 90, (150, 8, 8))
    return noisy.astype(np.uint8)[..., None], labels


def _make(cls=DDSH, **options):
    common = {"n_bits": 8, "backbone": Tiny(), "training": FAST, "preset": "pairs", "n_omega": 20}
    return cls(**(common | {"sampling": "random", "start": "random"} | options))


@pytest.mark.parametrize("loss", ["l2", "logistic", {"kind": "logistic", "scale": 8.0}])
def test_the_gradient_equals_finite_differences(rng, loss):
    outputs = torch.tensor(rng.normal(size=(5, 6)), requires_grad=True)
    codes = torch.tensor(rng.choice([-1.0, 1.0], (7, 6)))
    similarity = torch.tensor(rng.choice([1.0, -0.3, 0.0], (5, 7)))
    torch.autograd.gradcheck(lambda z: as_loss(loss).mean(torch.tanh(z) @ codes.T, similarity, 6), [outputs])


def test_the_gradient_of_l2_is_the_papers_with_the_factor_c(rng):
    c, z = 6, torch.tensor(rng.normal(size=(5, 6)), requires_grad=True)
    codes = torch.tensor(rng.choice([-1.0, 1.0], (7, c)))
    similarity = torch.tensor(rng.choice([1.0, -1.0], (5, 7)))
    L2Loss().mean(torch.tanh(z) @ codes.T, similarity, c).backward()
    a = torch.tanh(z.detach())
    paper = 2 * (a @ codes.T - c * similarity) @ codes * (1 - a**2)
    assert z.grad is not None
    assert torch.allclose(z.grad * (5 * 7 * c**2), paper)


@pytest.mark.parametrize("loss", [L2Loss(), LogisticLoss(), LogisticLoss(scale=8.0)])
def test_the_slope_of_a_loss_makes_one_open_bit_exact(rng, loss):
    products, similarity = rng.integers(-5, 6, (4, 5)).astype(float), rng.choice([1.0, -0.4, 0.0], (4, 5))
    middle = (loss.values(products + 1, similarity, 6) + loss.values(products - 1, similarity, 6)) / 2
    for bit in (-1, 1):
        expected = middle + bit * loss.slope(products, similarity, 6)
        assert np.allclose(loss.values(products + bit, similarity, 6), expected)


def test_a_ridge_trains_towards_the_codes_where_the_loss_on_pairs_is_flat(images):
    seen = []

    class Watched(DDSH):
        def _begin_epoch(self, number):
            found = super()._begin_epoch(number)
            seen.append(
                (self._least_squares.double(), self._targets.double(), torch.from_numpy(self._S_gamma).double())
            )
            return found

    ridge, c = 1e-3, 8
    method = Watched(**_make(ridge=ridge).get_params()).fit(*images)
    for codes, omega, S in seen:
        h = codes.clone().requires_grad_()
        # Per image: the mean over Omega of (s - b.h / c)^2, and the ridge in the same unit.
        loss = L2Loss().mean(h @ omega.T, S, c) * len(h) + ridge * h.square().sum() / c**2
        loss.backward()
        assert h.grad is not None
        assert h.grad.abs().max() < 1e-5
    distances = method.encode(images[0]).hamming(method.encode(images[0])).astype(float)
    same = images[1][:, None] == images[1]
    assert distances[same].mean() + 2 < distances[~same].mean()


# Three classes cannot all be c bits apart, so that with S = -1 much of the objective stays.
@pytest.mark.parametrize(("dissimilar", "share"), [("balanced", 0.25), ("minus-one", 0.6)])
def test_training_separates_the_classes_and_lowers_the_objective(images, dissimilar, share):
    training = Training(epochs=15, learning_rate=0.5, final_lr=0.05, batch_size=32, momentum=0.9)
    method = _make(training=training, dissimilar=dissimilar).fit(*images)
    objectives = [entry["objective"] for entry in method.history_]
    assert objectives[-1] < share * objectives[0]
    codes = method.encode(images[0])
    distances = codes.hamming(codes).astype(float)
    same = images[1][:, None] == images[1]
    assert distances[same].mean() + 2 < distances[~same].mean()
    assert (np.abs(np.tanh(method.project(images[0]))) > 0.8).mean() > 0.8


def test_the_discrete_step_never_raises_the_objective_with_local_search(images):
    method = _make(solver="local", context="others")
    seen = []

    class Watched(DDSH):
        def _begin_epoch(self, number):
            before = self._B.copy()
            rows, objective = super()._begin_epoch(number)
            omega, gamma = self._omega, self._gamma
            S = self._similarity(self._labels.take(np.concatenate([omega, gamma])), self._labels.take(omega))
            blocks = S[: len(omega)], S[len(omega) :]
            seen.append((full_objective(before[omega], before[gamma], *blocks), objective * len(self._B)))
            return rows, objective

    Watched(**method.get_params()).fit(*images)
    assert len(seen) == FAST.epochs
    assert all(after <= before * (1 + 1e-12) for before, after in seen)


def test_omega_is_drawn_anew_every_n_inner_epochs(images):
    drawn = []

    class Watched(DDSH):
        def _begin_epoch(self, number):
            found = super()._begin_epoch(number)
            drawn.append(tuple(self._omega))
            assert not set(self._omega) & set(found[0])
            assert len(self._omega) + len(found[0]) == 150
            return found

    Watched(8, backbone=Tiny(), training=FAST, n_omega=20, n_inner=3).fit(*images)
    assert drawn[0] == drawn[1] == drawn[2] != drawn[3] == drawn[4] == drawn[5]


def test_dissimilar_pairs_weigh_as_much_as_similar_ones_when_balanced(images):
    method = _make(dissimilar="balanced").fit(*images)
    S = method._similarity(method._labels, method._labels.take(method._omega))
    assert S[S > 0].sum() == pytest.approx(-S[S < 0].sum())
    plain = _make(dissimilar="minus-one").fit(*images)
    assert set(np.unique(plain._similarity(method._labels, method._labels))) == {-1.0, 1.0}


def test_dissimilar_pairs_of_two_multi_label_images_say_nothing(images):
    matrix = np.zeros((150, 4), int)
    matrix[np.arange(150), images[1]] = 1
    matrix[:60, 3] = images[1][:60] == 0
    method = _make().fit(images[0], matrix)
    S = method._similarity(method._labels, method._labels.take(method._omega))
    many = matrix.sum(axis=1) > 1
    similar = (matrix @ matrix[method._omega].T) > 0
    quiet = ~similar & many[:, None] & many[method._omega]
    assert (S[quiet] == 0).all()
    assert (S[~quiet] != 0).all()


def test_pairs_given_directly_train_like_the_labels_they_come_from(images):
    X, labels = images
    expected = _make().fit(X, labels).encode(X)
    matrix = sparse.csr_array((labels[:, None] == labels).astype(int))
    assert _make().fit(X, PairLabels(matrix)).encode(X) == expected
    similar = PairLabels(lambda a, b: labels[a][:, None] == labels[b], n_items=150)
    assert _make().fit(X, similar).encode(X) == expected


def test_frozen_features_stay_as_they_are(images):
    method = _make(DDSH0).fit(*images)
    assert torch.equal(method.model_.backbone.conv.weight, Tiny().conv.weight)
    assert not torch.equal(_make().fit(*images).model_.backbone.conv.weight, Tiny().conv.weight)


def test_frozen_stages_keep_their_weights_and_the_rest_learns(images, tmp_path, monkeypatch):
    training = replace(FAST, momentum=0.5)
    method = DDSH(
        8,
        backbone=Backbone("small-grey", n_frozen=2, cache_dir=tmp_path / "kept"),
        n_omega=20,
        training=training,
    )
    fresh = build_network("small-grey")
    method.fit(*images)
    for number, (learned, new) in enumerate(zip(method.model_.backbone.stages(), fresh.stages(), strict=True)):
        is_same = all(torch.equal(a, b) for a, b in zip(learned.parameters(), new.parameters(), strict=True))
        assert is_same == (number < 2)
    without = clone(method).set_params(backbone=Backbone("small-grey", n_frozen=2)).fit(*images)
    assert without.encode(images[0]) == method.encode(images[0])
    monkeypatch.setattr(FrozenLayers, "outputs", None)  # maps of a whole database may be larger than memory
    assert without.encode(images[0]) == method.encode(images[0])
    Model(method).save(tmp_path / "model")
    loaded = Model.load(tmp_path / "model").method
    assert loaded.trained_backbone.cache_dir is None
    assert loaded.encode(images[0]) == method.encode(images[0])


@pytest.mark.parametrize(
    "options", [{"preset": "paper"}, {"preset": "release"}, {"loss": "logistic"}, {"solver": "clustering"}]
)
def test_every_setting_trains(images, options):
    codes = _make(**options).fit(*images).encode(images[0])
    assert len(codes) == 150


def test_mac_learns_codes_and_network_together(images):
    training = Training(epochs=15, learning_rate=0.5, final_lr=0.05, batch_size=32, momentum=0.9)
    method = _make(DDSHMAC, training=training)
    codes = method.fit(*images).encode(images[0])
    distances = codes.hamming(codes).astype(float)
    same = images[1][:, None] == images[1]
    assert distances[same].mean() + 1 < distances[~same].mean()


def test_presets_are_the_papers_and_the_authors():
    paper, release = PRESETS["paper"], PRESETS["release"]
    assert paper.training.epochs // paper.n_inner == 3
    assert paper.n_inner == 50
    assert release.training.epochs // release.n_inner == 50
    assert release.n_inner == 3
    assert paper.training.weight_decay == release.training.weight_decay == 5e-4
    assert paper.training.batch_size == release.training.batch_size == 128
    assert release.training.rate(0.0) == pytest.approx(1e-2)
    assert release.training.rate(1.0) == pytest.approx(1e-4)
    assert DDSH(preset="paper", n_omega=7).settings().n_omega == 7


def test_a_learning_rate_alone_moves_the_final_rate_with_it():
    training = DDSH.from_description({"training": {"learning_rate": 0.2, "epochs": 5}}).settings().training
    assert (training.learning_rate, training.epochs) == (0.2, 5)
    assert training.final_lr == pytest.approx(2e-3)
    assert training.momentum == PRESETS["tuned"].training.momentum
    both = DDSH.from_description({"training": {"learning_rate": 0.2, "final_lr": 0.1}}).settings().training
    assert both.final_lr == 0.1


@pytest.mark.parametrize(
    ("variant", "training"), [(DDSH0, {"learning_rate": 0.5, "final_lr": 5e-3}), (DDSHMAC, {"batch_size": 128})]
)
def test_a_variant_trains_as_the_preset_pairs_does_with_another_schedule(variant, training):
    for preset in PRESETS.keys() - {"tuned"}:
        assert variant(preset=preset).settings() == DDSH(preset=preset).settings()
    pairs = PRESETS["pairs"]
    assert variant().settings() == replace(pairs, training=replace(pairs.training, **training))


@pytest.mark.parametrize(("dissimilar", "share"), [("balanced", 0.7), ("minus-one", 0.93)])
def test_the_objective_falls_on_real_images(dissimilar, share):
    sample = load("sample")
    rows = sample.parts["database"][:600]
    X = np.stack(list(sample.images.take(rows)))
    training = Training(epochs=4, learning_rate=0.5, final_lr=0.05, momentum=0.9)
    chosen = {"preset": "pairs", "n_omega": 50, "dissimilar": dissimilar, "start": "random"}
    method = DDSH(12, backbone="small-grey", training=training, **chosen)
    objectives = [entry["objective"] for entry in method.fit(X, sample.labels.take(rows)).history_]
    assert objectives[-1] < share * objectives[0]


def test_a_model_survives_a_folder(images, tmp_path):
    training = Training(epochs=1, learning_rate=0.1)
    method = DDSH(12, backbone="small-grey", training=training, n_omega=20).fit(*images)
    Model(method).save(tmp_path / "model", {"dataset": "toy"})
    saved = Model.load(tmp_path / "model")
    assert saved.encode(images[0]) == method.encode(images[0])
    assert saved.fingerprint == Model(method).fingerprint
    assert saved.about == {"dataset": "toy"}
    assert saved.method.describe_params() == method.describe_params()
    with pytest.raises(InvalidInput, match="holds a model already"):
        Model(method).save(tmp_path / "model")


@pytest.mark.parametrize("change", ["weights", "json", "missing", "version", "method"])
def test_a_damaged_model_is_refused(images, tmp_path, change):
    method = DDSH(8, backbone="small-grey", training=Training(epochs=1, learning_rate=0.1), n_omega=20).fit(*images)
    Model(method).save(tmp_path)
    facts, weights = tmp_path / "model.json", tmp_path / "model.safetensors"
    match change:
        case "weights":
            data = bytearray(weights.read_bytes())
            data[-1] ^= 1
            weights.write_bytes(data)
        case "json":
            facts.write_text("{")
        case "missing":
            weights.unlink()
        case "version":
            facts.write_text(json.dumps(json.loads(facts.read_text()) | {"version": 99}))
        case "method":
            facts.write_text(facts.read_text().replace('"method": "ddsh"', '"method": "dsh"'))
    with pytest.raises(ArtefactError) as caught:
        Model.load(tmp_path)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("options", "data", "message"),
    [
        ({}, lambda x, y: (x, y[1:]), "150 items but 149 labels"),
        ({}, lambda x, y: (x, None), "requires y"),
        ({}, lambda x, y: (x, 0 * y), "one class only"),
        ({"n_omega": 150}, lambda x, y: (x, y), "n_omega is 150"),
        ({"n_omega": 0}, lambda x, y: (x, y), "at least 1"),
        ({}, lambda x, y: (np.where(x == x.max(), np.nan, x), y), "uint8"),
        ({}, lambda x, y: (x[:0], y[:0]), "no images"),
        ({}, lambda x, y: (7, y), "int"),
        ({"n_bits": 0}, lambda x, y: (x, y), "n_bits"),
        ({"preset": "papr"}, lambda x, y: (x, y), "Did you mean 'paper'"),
        ({"loss": "l3"}, lambda x, y: (x, y), "Known: .*l2"),
        ({"ridge": -0.1}, lambda x, y: (x, y), "ridge must be 0 or more"),
        ({"warm_up": -1}, lambda x, y: (x, y), "warm_up must be 0 or more"),
        ({"ridge": 0.1, "loss": "logistic"}, lambda x, y: (x, y), "A ridge solves the L2 loss"),
        ({"backbone": Backbone(Tiny(), n_frozen=3)}, lambda x, y: (x, y), "has 2 stages"),
        (
            {"backbone": Backbone(Tiny(), n_frozen=1), "training": replace(FAST, crop=1)},
            lambda x, y: (x, y),
            "needs crop=0",
        ),
        ({"solver": "locl"}, lambda x, y: (x, y), "Did you mean 'local'"),
        ({"dissimilar": "minus"}, lambda x, y: (x, y), "Did you mean 'minus-one'"),
        ({"context": "after"}, lambda x, y: (x, y), "Known: before, others"),
        ({"backbone": Backbone(Tiny(), device="cuda:99")}, lambda x, y: (x, y), "cannot be used here"),
        ({"backbone": "efficientnet"}, lambda x, y: (x, y), "Did you mean 'efficientnet"),
        ({"training": Training(epochs=3, learning_rate=1e30)}, lambda x, y: (x, y), "smaller learning rate"),
    ],
)
def test_bad_input_gets_one_clear_line(images, options, data, message):
    with pytest.raises(InvalidInput, match=message) as caught:
        _make(**options).fit(*data(*images))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("options", [{"epochs": 0}, {"learning_rate": -1.0}, {"batch_size": 0}, {"momentum": -0.1}])
def test_a_training_that_makes_no_sense_is_refused(options):
    with pytest.raises(InvalidInput):
        Training(**({"epochs": 1, "learning_rate": 0.1} | options))


SCRIPT = """
import sys, time
from dataclasses import replace
from pathlib import Path
import numpy as np
sys.path.insert(0, {tests!r})
from test_ddsh import DDSH, Tiny, Training
data = np.load({data!r})
training = Training(epochs=6, learning_rate=0.5, final_lr=0.05, batch_size=32, momentum=0.9, flip=True, crop=1,
                    checkpoint_seconds=0.0)
method = DDSH(8, backbone=Tiny(), training=training, n_omega=20, seed=3, n_inner=2)
slow = {slow}
method.fit(data["X"], data["y"], checkpoints=Path({folder!r}), resume=True,
           on_step=lambda step: (print(step.done, flush=True), time.sleep(slow)))
np.save({out!r}, method.project(data["X"]))
"""


def _script(tmp_path, images, folder, out, slow=0.0):
    np.savez(tmp_path / "data.npz", X=images[0], y=images[1])
    text = SCRIPT.format(
        tests=str(Path(__file__).parent),
        data=str(tmp_path / "data.npz"),
        folder=str(tmp_path / folder),
        out=str(tmp_path / out),
        slow=slow,
    )
    return [sys.executable, "-c", text]


def test_a_run_killed_at_any_moment_ends_with_the_same_outputs(images, tmp_path, rng):
    subprocess.run(_script(tmp_path, images, "whole", "whole.npy"), check=True, capture_output=True)
    for kill_after in (2, 9, 14):
        with subprocess.Popen(
            _script(tmp_path, images, "cut", "cut.npy", slow=0.01), stdout=subprocess.PIPE, text=True
        ) as process:
            assert process.stdout is not None
            for line in process.stdout:
                if int(line) >= kill_after:
                    break
            time.sleep(rng.uniform(0, 0.02))
            process.send_signal(signal.SIGKILL)
        assert process.returncode == -signal.SIGKILL
        assert 1 <= len(list((tmp_path / "cut").glob("checkpoint-*"))) <= 3
    subprocess.run(_script(tmp_path, images, "cut", "cut.npy"), check=True, capture_output=True)
    assert (tmp_path / "cut.npy").read_bytes() == (tmp_path / "whole.npy").read_bytes()
    assert len(list((tmp_path / "cut").glob("checkpoint-*"))) == 2
    subprocess.run(_script(tmp_path, images, "cut", "again.npy"), check=True, capture_output=True)
    assert (tmp_path / "again.npy").read_bytes() == (tmp_path / "whole.npy").read_bytes()


def _stopped(tmp_path, images, **options):
    """Checkpoints of a run that was stopped after four mini-batches."""

    def stop(step):
        if step.done == 4:
            raise KeyboardInterrupt

    training = Training(epochs=3, learning_rate=0.1, batch_size=32, checkpoint_seconds=0.0)
    with pytest.raises(KeyboardInterrupt):
        _make(training=training, **options).fit(*images, checkpoints=tmp_path, on_step=stop)
    return training


def test_a_checkpoint_of_another_configuration_is_refused_and_kept(images, tmp_path):
    training = _stopped(tmp_path, images)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    for options in ({"seed": 1}, {"n_bits": 9}, {"n_inner": 2}):
        with pytest.raises(ArtefactError, match="another configuration"):
            _make(training=training, **options).fit(*images, checkpoints=tmp_path, resume=True)
    with pytest.raises(ArtefactError, match="another configuration or other data"):
        _make(training=training).fit(images[0][::-1], images[1], checkpoints=tmp_path, resume=True)
    with pytest.raises(ArtefactError, match="resume it or choose another folder"):
        _make(training=training).fit(*images, checkpoints=tmp_path)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_a_file_that_is_no_checkpoint_is_refused(images, tmp_path):
    training = _stopped(tmp_path, images)
    (tmp_path / "checkpoint-999999999.safetensors").write_bytes(b"nothing")
    with pytest.raises(ArtefactError, match="is not a checkpoint of ddsh"):
        _make(training=training).fit(*images, checkpoints=tmp_path, resume=True)


PARALLEL = """
import os, sys
import numpy as np
import torch
from torch import distributed
sys.path.insert(0, {tests!r})
from test_ddsh import DDSH, Tiny, Training
from ddsh.methods.dpsh import DPSH
from ddsh.methods.dsh import DSH
if int(os.environ.get("WORLD_SIZE", 1)) > 1:
    distributed.init_process_group("gloo")
data = np.load({data!r})
training = Training(epochs=2, learning_rate=0.2, batch_size=33, momentum=0.9, flip=True)
method = DDSH(8, backbone=Tiny(), training=training, n_omega=20).fit(data["X"], data["y"])
slower = Training(epochs=2, learning_rate=0.01, batch_size=33, momentum=0.9, flip=True)
others = dict((cls.__name__, cls(8, backbone=Tiny(), training=slower).fit(data["X"], data["y"])) for cls in (DSH, DPSH))
if int(os.environ.get("RANK", 0)) == 0:
    outputs = dict((name, other.project(data["X"])) for name, other in others.items())
    np.savez({out!r}, outputs=method.project(data["X"]), B=method._B, **outputs)
if distributed.is_initialized():
    distributed.destroy_process_group()
"""


def test_two_processes_learn_what_one_learns(images, tmp_path):
    np.savez(tmp_path / "data.npz", X=images[0], y=images[1])
    found = []
    for name, launcher in (("one", []), ("two", ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"])):
        script = tmp_path / f"{name}.py"
        out = tmp_path / f"{name}.npz"
        script.write_text(
            PARALLEL.format(tests=str(Path(__file__).parent), data=str(tmp_path / "data.npz"), out=str(out))
        )
        environment = os.environ | {"OMP_NUM_THREADS": "1"}
        done = subprocess.run(
            [sys.executable, *launcher, str(script)], capture_output=True, text=True, timeout=400, env=environment
        )
        assert done.returncode == 0, done.stderr
        found.append(np.load(out))
    for name in ("outputs", "DSH", "DPSH"):
        assert np.allclose(found[0][name], found[1][name], atol=1e-4), name
        assert np.abs(found[0][name]).max() > 1e-2
    assert np.array_equal(found[0]["B"], found[1]["B"])


def test_unknown_names_say_what_was_meant():
    with pytest.raises(UnknownName, match="logistic"):
        as_loss("logistc")


def test_pair_labels_are_checked():
    with pytest.raises(InvalidInput, match="square"):
        PairLabels(sparse.csr_array(np.ones((2, 3))))
    with pytest.raises(InvalidInput, match="n_items"):
        PairLabels(lambda a, b: a[:, None] == b)
    with pytest.raises(InvalidInput, match="one kind"):
        PairLabels(sparse.csr_array(np.eye(2))).similar(as_labels([0, 1]))


def test_a_stratified_omega_has_the_share_of_each_class(images):
    class Watched(DDSH):
        def _begin_epoch(self, number):
            found = super()._begin_epoch(number)
            shares.append(np.bincount(images[1][self._omega]).tolist())
            return found

    shares = []
    Watched(8, backbone=Tiny(), training=FAST, n_omega=21, sampling="stratified").fit(*images)
    assert shares == [[7, 7, 7]] * FAST.epochs


def test_codes_can_start_from_those_of_cosdish(images):
    class Watched(DDSH):
        def _begin_fit(self, labels):
            super()._begin_fit(labels)
            starts.append(self._B.copy())

    starts = []
    Watched(8, backbone=Tiny(), training=FAST, n_omega=20, start="cosdish", seed=3).fit(*images)
    assert np.array_equal(starts[0], COSDISH(8, seed=3).learn_codes(as_labels(images[1])))


def test_codes_can_start_from_those_that_the_labels_alone_give(rng):
    class Watched(DDSH):
        def _begin_epoch(self, number):
            starts.append(self._B.copy())
            return super()._begin_epoch(number)

    starts = []
    matrix = np.eye(6, dtype=int)[np.arange(120) % 6] | np.eye(6, dtype=int)[np.arange(120) % 5]
    pixels = rng.integers(0, 255, (120, 8, 8, 1)).astype(np.uint8)
    settings = {"n_omega": 40, "solver": "local", "context": "others", "dissimilar": "balanced", "multilabel": "none"}
    for start in ("labels", "random"):
        Watched(12, backbone=Tiny(), training=replace(FAST, epochs=1), start=start, **settings).fit(pixels, matrix)
    labels = as_labels(matrix)
    similar = labels.similar(labels)
    learned, at_random = (codes.astype(int) @ codes.T.astype(int) for codes in starts)
    assert learned[similar].mean() > learned[~similar].mean() + 6  # of 12 bits
    assert abs(at_random[similar].mean() - at_random[~similar].mean()) < 2


@pytest.mark.parametrize("cls", [DDSH, DDSHMAC])
def test_the_codes_of_the_start_stay_during_the_warm_up(images, cls):
    class Watched(cls):
        def _begin_epoch(self, number):
            codes.append(self._B.copy())
            return super()._begin_epoch(number)

    codes = []
    _make(Watched, warm_up=3, start="cosdish").fit(*images)
    assert all(np.array_equal(codes[0], later) for later in codes[1:4])
    assert not np.array_equal(codes[0], codes[4])


@pytest.mark.parametrize(
    ("multilabel", "expected"),
    [
        ("authors", [[1.0, 1.0, 0.0], [1.0, 1.0, -1.0], [0.0, -1.0, 1.0]]),
        ("none", [[1.0, 1.0, -1.0], [1.0, 1.0, -1.0], [-1.0, -1.0, 1.0]]),
        ("jaccard", [[1.0, 0.5, -1.0], [0.5, 1.0, -1.0], [-1.0, -1.0, 1.0]]),
        ("cosine", [[1.0, 0.5**0.5, -1.0], [0.5**0.5, 1.0, -1.0], [-1.0, -1.0, 1.0]]),
    ],
)
def test_the_similarity_of_multi_label_images_is_a_choice(multilabel, expected):
    labels = as_labels(np.array([[1, 1, 0, 0], [1, 0, 0, 0], [0, 0, 1, 1]]))
    found = similarity(labels, labels, dissimilar="minus-one", multilabel=multilabel)
    assert np.allclose(found, expected)


@pytest.mark.parametrize("multilabel", ["none", "jaccard", "cosine"])
def test_balanced_similarities_weigh_similar_and_dissimilar_pairs_alike(rng, multilabel):
    labels = as_labels((rng.random((40, 6)) < 0.2).astype(int))
    S = similarity(labels, labels, dissimilar="balanced", multilabel=multilabel)
    assert S.sum() == pytest.approx(0, abs=1e-9)


def test_a_choice_for_multi_label_images_changes_nothing_for_single_labels(images):
    codes = [_make(multilabel=kind).fit(*images).encode(images[0]) for kind in ("authors", "jaccard")]
    assert codes[0] == codes[1]


def test_a_final_rate_of_zero_is_refused():
    with pytest.raises(InvalidInput, match="final_lr must be above 0"):
        Training(epochs=3, learning_rate=0.1, final_lr=0.0)


def test_a_loss_with_parameters_is_described_in_plain_values(images):
    method = _make(loss={"kind": "logistic", "scale": 8.0})
    assert method.describe_params()["loss"] == {"kind": "logistic", "scale": 8.0}
    assert _make(loss=LogisticLoss(8.0)).describe_params() == method.describe_params()
    assert _make(loss=L2Loss()).describe_params()["loss"] == "l2"
    for bad in ({"kind": "logistic", "colour": 1}, {"scale": 3}, 5):
        with pytest.raises(InvalidInput):
            _make(loss=bad).fit(*images)


def test_the_hash_layer_absorbs_the_standardisation_of_features(images):
    network = HashNetwork(Tiny(), 8, seed=0).eval()
    pixels = torch.from_numpy(images[0][:40])
    features = network.backbone(pixels)
    network.standardise(features)
    standard = (features - network.feature_mean) / network.feature_spread
    assert standard.detach().mean(0).abs().max() < 1e-5
    assert standard.detach().square().mean().item() == pytest.approx(1.0, rel=1e-4)
    before = network(pixels).detach()
    network.absorb_standardisation()
    assert set(network.state_dict()) == set(HashNetwork(Tiny(), 8, seed=0).state_dict())
    torch.testing.assert_close(network(pixels).detach(), before, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("warm_up", [0, 2])
def test_a_standardised_training_resumes_to_the_same_codes(images, tmp_path, warm_up):
    training = replace(FAST, standardise=True, checkpoint_seconds=0)
    whole = _make(training=training, warm_up=warm_up).fit(*images)
    plain = _make(training=replace(FAST, checkpoint_seconds=0), warm_up=warm_up).fit(*images)
    assert not np.array_equal(whole.project(images[0]), plain.project(images[0]))

    class Stop(Exception):
        pass

    def stop(step):
        if step.done == 3:
            raise Stop

    with pytest.raises(Stop):
        _make(training=training, warm_up=warm_up).fit(*images, checkpoints=tmp_path, on_step=stop)
    resumed = _make(training=training, warm_up=warm_up).fit(*images, checkpoints=tmp_path, resume=True)
    assert np.array_equal(resumed.project(images[0]), whole.project(images[0]))


def several(n_items):
    return as_labels(np.arange(n_items) % 3)


def test_images_with_several_labels_get_their_own_preset():
    labels = as_labels(np.eye(5, dtype=np.uint8)[np.arange(5000) % 5] | np.eye(5, dtype=np.uint8)[np.arange(5000) % 3])
    assert DDSH(16).adapted(labels).settings() == PRESETS["multilabel"]
    assert DDSH(16, preset="paper").adapted(labels).preset == "paper"
    one_each = as_labels(np.eye(5, dtype=np.uint8)[np.arange(5000) % 5])
    assert DDSH(16).adapted(one_each).preset == "tuned"
    assert DDSH(16).adapted(labels, given=["preset"]).preset == "tuned"
    given = DDSH(16, training=Training(epochs=3, learning_rate=9.0)).adapted(labels, given=["epochs"])
    assert given.settings().training == replace(PRESETS["multilabel"].training, epochs=3)


def test_few_images_get_a_smaller_omega_and_schedule():
    schedule = PRESETS["tuned"].training
    smaller = replace(schedule, batch_size=16).scaled(schedule.learning_rate / 2)
    assert DDSH(16).adapted(several(90)).settings() == replace(PRESETS["tuned"], n_omega=45, training=smaller)
    assert DDSH(16).adapted(several(150)).settings().n_omega == 75
    pairs = DDSH(16, preset="pairs", sampling="random").adapted(several(90), given=[]).settings()
    assert (pairs.n_omega, pairs.solver, pairs.sampling, pairs.start) == (45, "local", "stratified", "cosdish")
    schedule = PRESETS["pairs"].training
    assert pairs.training == replace(schedule, batch_size=16).scaled(schedule.learning_rate / 4)
    half = DDSH(16, preset="multilabel").adapted(several(500)).settings()
    schedule = PRESETS["multilabel"].training
    smaller = replace(schedule, batch_size=16).scaled(schedule.learning_rate / 4)
    assert half == replace(PRESETS["multilabel"], n_omega=250, training=smaller)


def test_a_thousand_images_get_smaller_batches_where_codes_are_targets():
    schedule = PRESETS["tuned"].training
    smaller = replace(schedule, batch_size=16).scaled(schedule.learning_rate / 2)
    for n_items in (200, 1000, 1919):
        assert DDSH(16).adapted(several(n_items)).settings() == replace(PRESETS["tuned"], training=smaller)
    assert DDSH(16).adapted(several(1920)).settings() == PRESETS["tuned"]
    pairs = DDSH(16, preset="pairs")
    assert pairs.adapted(several(1000)) is pairs
    given = DDSH(16).adapted(several(1000), given=["batch_size"])
    assert given.settings().training.batch_size == schedule.batch_size


@pytest.mark.parametrize("cls", [DDSH, DDSH0, DDSHMAC])
@pytest.mark.parametrize("preset", sorted(PRESETS))
def test_enough_images_change_nothing(cls, preset):
    method = cls(16, preset=preset)
    settings = method.settings()
    enough = max(2 * settings.n_omega, (60 if settings.ridge else 4) * settings.training.batch_size)
    assert method.adapted(several(enough)) is method
    assert method.adapted(several(5000)) is method


def test_parameters_that_were_given_are_not_adapted(images):
    method = DDSH(16, preset="pairs", n_omega=100, solver="exact", sampling="random", start="random", training=FAST)
    assert method.adapted(several(20)).get_params() == method.get_params()
    assert DDSH(16, preset="pairs", n_omega=100).adapted(several(90)).settings().start == "cosdish"
    named = DDSH(16, preset="pairs", training=FAST).adapted(several(20), given=["epochs"])
    assert (named.training.epochs, named.training.batch_size, named.n_omega) == (FAST.epochs, 16, 10)
    assert named.training.learning_rate == pytest.approx(FAST.learning_rate / 2)
    assert DDSH(16).adapted(several(20), given=["learning_rate"]).training.learning_rate == 0.02
    with pytest.raises(InvalidInput, match=r"n_omega is 100 but there are only 90 images.*adapted\(labels\)"):
        DDSH(8, backbone=Tiny(), training=FAST, n_omega=100).fit(images[0][:90], images[1][:90])


def test_an_adapted_method_learns_from_few_images_and_leaves_the_original(images):
    pixels, labels = images
    few = [
        *np.flatnonzero(labels < 2)[:20],
        int(np.flatnonzero(labels == 2)[0]),
    ]  # two classes, and one image of a third
    original = DDSH(8, backbone=Tiny(), preset="scratch")
    before = original.get_params()
    method = original.adapted(as_labels(labels[few])).fit(pixels[few], labels[few])
    assert original.get_params() == before
    assert len(method.history_) == method.settings().training.epochs
    assert method.describe_params()["n_omega"] == 10
    codes = method.encode(pixels)
    same = codes[np.flatnonzero(labels == 0)].signs().mean(0) @ codes[np.flatnonzero(labels == 0)].signs().mean(0)
    other = codes[np.flatnonzero(labels == 0)].signs().mean(0) @ codes[np.flatnonzero(labels == 1)].signs().mean(0)
    assert same > other


@pytest.mark.parametrize("n_items", [2, 3, 16, 63, 64, 65, 255, 256, 1000])
def test_a_schedule_for_few_images_takes_enough_steps(n_items):
    schedule = Training(epochs=12, learning_rate=0.05, batch_size=64)
    suited = schedule.for_few(n_items)
    assert suited.batch_size in (16, 32, 64)
    assert suited.epochs * -(-n_items // suited.batch_size) >= 30
    assert (suited == schedule) == (n_items >= 256)
    assert suited.learning_rate == pytest.approx(0.05 * suited.batch_size / 64)
    assert schedule.for_few(n_items, given=["epochs", "batch_size"]) == schedule


def test_the_network_of_a_two_step_method_is_adapted_too():
    method = COSDISH(16, extension="cnn")
    adapted = method.adapted(several(40)).describe_params()["extension"]["training"]
    assert adapted["batch_size"] == 16
    assert method.adapted(several(5000)) is method
    assert COSDISH(16, extension="linear").adapted(several(5)).extension == "linear"


def test_items_without_a_label_are_refused_with_their_number(images):
    labels = SingleLabels(np.where(np.arange(150) < 4, -1, images[1]), missing=-1)
    with pytest.raises(InvalidInput, match="4 of 150 items have no label"):
        _make().fit(images[0], labels)
