"""Training under torchrun: a killed process, and two hosts that share no folder."""

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytest.importorskip("torch")

TORCHRUN = [sys.executable, "-m", "torch.distributed.run"]
TRAIN = "train sample --bits 8 --look-bits 0 --backbone small-grey --image-size 8 --n-train 200 --no-calibration"
LONG = ["--epochs", "20", "--batch-size", "10"]  # long enough to be killed in time
ONE_HOST = ["--standalone", "--nproc-per-node=2", "--max-restarts=3"]
ENVIRONMENT = os.environ | {"OMP_NUM_THREADS": "1", "TORCH_CPP_LOG_LEVEL": "ERROR"}


def _start(launcher, out, prefix=()):
    command = [*prefix, *TORCHRUN, *launcher, "-m", "ddsh", *TRAIN.split(), *LONG]
    return subprocess.Popen(
        [*command, "--out", str(out)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=ENVIRONMENT,
        start_new_session=True,
    )


def _end(process):
    try:
        said = process.communicate(timeout=900)[0]
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
    assert process.returncode == 0, said
    return said


def _weights(out):
    return {path.name: path.read_bytes() for path in out.iterdir() if path.suffix == ".safetensors"}


def _ranks(launcher):
    """The processes that torchrun started, by rank."""
    found = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            parent = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
            environment = (folder / "environ").read_bytes().split(b"\0")
        except OSError:
            continue
        rank = [value for value in environment if value.startswith(b"RANK=")]
        if parent == launcher and rank:
            found[int(rank[0][5:])] = int(folder.name)
    return found


def _first_checkpoint(outs, launchers):
    """Wait for a checkpoint, and return the folder that has it."""
    deadline = time.monotonic() + 900
    while not (found := [out for out in outs if list((out / "checkpoints").glob("checkpoint-*"))]):
        assert time.monotonic() < deadline
        for launcher in launchers:
            assert launcher.poll() is None, launcher.communicate()[0]
        time.sleep(0.02)
    return found[0]


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    out = tmp_path_factory.mktemp("undisturbed") / "model"
    _end(_start(ONE_HOST, out))
    return _weights(out)


@pytest.mark.cluster
@pytest.mark.skipif(sys.platform != "linux", reason="finds processes in /proc")
def test_after_a_process_was_killed_the_model_is_that_of_an_undisturbed_run(tmp_path, undisturbed):
    out = tmp_path / "model"
    process = _start(ONE_HOST, out)
    _first_checkpoint([out], [process])
    os.kill(_ranks(process.pid)[1], signal.SIGKILL)
    assert not (out / "model.json").exists(), "it was killed too late"
    _end(process)
    assert undisturbed
    assert _weights(out) == undisturbed
    assert not (out / "checkpoints").exists()


@pytest.fixture
def two_hosts():
    """Two network namespaces with a cable between them; skip where they cannot be made."""
    if not shutil.which("ip"):
        pytest.skip("needs the command ip (Debian: iproute2)")
    names = [f"ddsh{os.getpid()}{letter}" for letter in "ab"]
    made = []
    try:
        for name in names:
            done = subprocess.run(["ip", "netns", "add", name], capture_output=True, text=True)
            if done.returncode:
                pytest.skip(f"network namespaces cannot be made here: {done.stderr.strip()}")
            made.append(name)
        cable = ["ip", "link", "add", "ddsh0", "netns", names[0], "type", "veth", "peer", "ddsh0", "netns", names[1]]
        done = subprocess.run(cable, capture_output=True, text=True)
        if done.returncode:
            pytest.skip(f"virtual cables cannot be made here: {done.stderr.strip()}")
        for number, name in enumerate(names, 1):
            for words in (f"addr add 10.77.0.{number}/24 dev ddsh0", "link set ddsh0 up", "link set lo up"):
                subprocess.run(["ip", "-n", name, *words.split()], check=True)
        yield names
    finally:
        for name in made:
            subprocess.run(["ip", "netns", "del", name], check=True)


@pytest.mark.cluster
def test_two_hosts_that_share_no_folder_learn_the_same_and_survive_a_kill(tmp_path, undisturbed, two_hosts):
    outs = [tmp_path / name / "model" for name in two_hosts]
    rendezvous = ["--nnodes=2", "--nproc-per-node=1", "--max-restarts=3", "--rdzv-backend=c10d", "--rdzv-id=test"]
    rendezvous += ["--rdzv-endpoint=10.77.0.1:29400"]
    hosts = [
        _start(
            [*rendezvous, f"--local-addr=10.77.0.{number}", f"--rdzv-conf=timeout=300,is_host={int(number == 1)}"],
            out,
            prefix=["ip", "netns", "exec", name, "env", "GLOO_SOCKET_IFNAME=ddsh0"],
        )
        for number, (name, out) in enumerate(zip(two_hosts, outs, strict=True), 1)
    ]
    try:
        writer = _first_checkpoint(outs, hosts)
        (other,) = _ranks(hosts[1 - outs.index(writer)].pid).values()
        os.kill(other, signal.SIGKILL)
        assert not (writer / "model.json").exists(), "it was killed too late"
        for host in hosts:
            _end(host)
    finally:
        for host in hosts:
            if host.poll() is None:
                os.killpg(host.pid, signal.SIGKILL)
                host.wait()
    assert _weights(writer) == undisturbed
    assert not outs[1 - outs.index(writer)].exists(), "only rank 0 writes"
