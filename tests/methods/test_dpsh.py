import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from ddsh.backbones import Backbone
from ddsh.errors import InvalidInput
from ddsh.labels import as_labels
from ddsh.methods.dpsh import DPSH
from ddsh.methods.training import Training

FAST = Training(epochs=16, learning_rate=0.03, final_lr=0.003, batch_size=32, momentum=0.9, checkpoint_seconds=0.0)
N, C = 9, 6


@pytest.fixture
def labels(rng):
    return rng.integers(0, 3, N)


@pytest.fixture
def method(labels, rng):
    """A method in the middle of training, with stored outputs of all images."""
    made = DPSH(C, eta=3.0)
    made._begin_fit(as_labels(labels))
    made._U[:] = rng.normal(size=(N, C))
    return made


def _make(**options):
    return DPSH(**({"n_bits": 8, "backbone": Backbone("small-grey", image_size=8), "training": FAST} | options))


def _objective(U, labels, eta):
    """The paper's Eq. (4), over all ordered pairs."""
    total = eta * np.sum((np.where(U > 0, 1, -1) - U) ** 2)
    for i in range(len(U)):
        for j in range(len(U)):
            theta = U[i] @ U[j] / 2
            total += np.logaddexp(0, theta) - (labels[i] == labels[j]) * theta
    return total


def test_the_loss_is_that_of_a_mini_batch_with_all_images(method, labels, rng):
    rows = np.array([4, 0, 7])
    outputs = rng.normal(size=(3, C))
    stored = method._U.astype(np.float64)
    stored[rows] = outputs
    pairs = 0.0
    for i, row in enumerate(rows):
        for j in range(N):
            theta = outputs[i] @ stored[j] / 2
            pairs += np.log(1 + np.exp(theta)) - (labels[row] == labels[j]) * theta
    quantisation = 3.0 * np.sum((np.sign(outputs) - outputs) ** 2)
    expected = pairs / (3 * N) + quantisation / (2 * 3 * N)
    assert method._loss(torch.tensor(outputs), rows).item() == pytest.approx(expected)


def test_the_loss_of_all_images_has_the_gradient_of_the_papers_objective(method, labels, rng):
    U = torch.tensor(rng.normal(size=(N, C)), requires_grad=True)
    method._loss(U, np.arange(N)).backward()
    numeric = np.zeros((N, C))
    for place in np.ndindex(N, C):
        step = np.zeros((N, C))
        step[place] = 1e-6
        values = [_objective(U.detach().numpy() + sign * step, labels, 3.0) for sign in (1, -1)]
        numeric[place] = (values[0] - values[1]) / 2e-6
    assert U.grad is not None
    assert np.allclose(U.grad.numpy() * (2 * N**2), numeric, atol=1e-6)


def test_the_gradient_of_a_mini_batch_is_the_papers(method, labels, rng):
    rows = np.array([4, 0, 7])
    outputs = torch.tensor(rng.normal(size=(3, C)), requires_grad=True)
    method._loss(outputs, rows).backward()
    u = outputs.detach().numpy()
    stored = method._U.astype(np.float64)
    stored[rows] = u
    likely = 1 / (1 + np.exp(-u @ stored.T / 2))
    similar = labels[rows][:, None] == labels
    paper = (likely - similar) @ stored + 2 * 3.0 * (u - np.sign(u))  # Eq. (7), every pair from both sides
    assert outputs.grad is not None
    assert np.allclose(outputs.grad.numpy() * (2 * 3 * N), paper)


def test_quantisation_costs_nothing_where_outputs_are_signs(labels, rng):
    plain, weighted = DPSH(C, eta=0.0), DPSH(C, eta=50.0)
    for method in (plain, weighted):
        method._begin_fit(as_labels(labels))
    rows = np.arange(3)
    signs = torch.tensor(rng.choice([-1.0, 1.0], (3, C)))
    assert weighted._loss(signs, rows) == plain._loss(signs, rows)
    for other in (0.9 * signs, 1.1 * signs):
        assert weighted._loss(other, rows) > plain._loss(other, rows)


def test_stored_outputs_are_updated_after_a_mini_batch(method, rng):
    before = method._U.copy()
    outputs = rng.normal(size=(2, C)).astype(np.float32)
    method._after_batch(np.array([8, 3]), outputs)
    assert np.array_equal(method._U[[8, 3]], outputs)
    others = np.setdiff1d(np.arange(N), [8, 3])
    assert np.array_equal(method._U[others], before[others])


def test_a_run_is_not_resumed_with_another_number_of_threads(images, tmp_path):
    def stop(step):
        if step.done == 4:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        _make().fit(*images, checkpoints=tmp_path, on_step=stop)
    before = torch.get_num_threads()
    torch.set_num_threads(before + 1)
    try:
        with pytest.raises(InvalidInput, match=rf"began with {before} threads.* --threads {before}"):
            _make().fit(*images, checkpoints=tmp_path, resume=True)
    finally:
        torch.set_num_threads(before)


@pytest.mark.parametrize("stop_after", [1, 4])
def test_a_run_that_was_stopped_ends_with_the_same_bytes(images, tmp_path, stop_after):
    def stop(step):
        if step.done == stop_after:
            raise KeyboardInterrupt

    whole = _make().fit(*images)
    with pytest.raises(KeyboardInterrupt):
        _make().fit(*images, checkpoints=tmp_path, on_step=stop)
    resumed = _make().fit(*images, checkpoints=tmp_path, resume=True)
    assert resumed._U.tobytes() == whole._U.tobytes()
    assert resumed.project(images[0]).tobytes() == whole.project(images[0]).tobytes()


# Only the hash layer learns: batch normalisation would see no more than a process's own images.
FROZEN = {
    "backbone": Backbone("small-grey", image_size=8, n_frozen=4),
    "training": Training(epochs=2, learning_rate=0.05, batch_size=31, momentum=0.9),
}
PARALLEL = """
import sys
import numpy as np
from torch import distributed
sys.path.insert(0, {tests!r})
from test_dpsh import FROZEN, _make
distributed.init_process_group("gloo")
data = np.load({data!r})
method = _make(**FROZEN).fit(data["X"], data["y"])
if distributed.get_rank() == 0:
    np.savez({out!r}, outputs=method.project(data["X"]), U=method._U)
distributed.destroy_process_group()
"""


def test_two_processes_learn_what_one_learns(images, tmp_path):
    data, script, out = tmp_path / "data.npz", tmp_path / "two.py", tmp_path / "two.npz"
    np.savez(data, X=images[0], y=images[1])
    script.write_text(PARALLEL.format(tests=str(Path(__file__).parent), data=str(data), out=str(out)))
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    done = subprocess.run([*launcher, str(script)], capture_output=True, text=True, timeout=120, env=environment)
    assert done.returncode == 0, done.stderr
    one, two = _make(**FROZEN).fit(*images), np.load(out)
    assert np.allclose(one.project(images[0]), two["outputs"], atol=1e-4)
    assert np.allclose(one._U, two["U"], atol=1e-4)
