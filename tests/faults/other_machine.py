"""Encode the same photos with the same model as if on other processors, and count the bits that differ.

``python tests/faults/other_machine.py [N]`` encodes N bundled images: with two threads, without AVX-512, and with the
oldest instructions that PyTorch, oneDNN, OpenBLAS and NumPy can be told to use.
"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

from ddsh import Backbone, Model, load
from ddsh.methods.lsh import LSH

N_BITS = 32
MACHINES = {
    "one thread": {},
    "two threads": {"OMP_NUM_THREADS": "2", "OPENBLAS_NUM_THREADS": "2"},
    "AVX2": {"ATEN_CPU_CAPABILITY": "avx2", "ONEDNN_MAX_CPU_ISA": "AVX2", "OPENBLAS_CORETYPE": "Haswell"},
    "SSE 4.1": {"ATEN_CPU_CAPABILITY": "default", "ONEDNN_MAX_CPU_ISA": "SSE41", "OPENBLAS_CORETYPE": "Prescott"},
}


def encode(folder: Path, n_images: int) -> None:
    """Encode the images with the saved model, in a process of its own."""
    images = load("sample").images.take(np.arange(n_images))
    model = Model.load(folder / "model", device="cpu")
    np.savez(folder / "codes.npz", outputs=model.project(images), codes=model.encode(images).packed)


def main() -> None:
    """Encode with every setting, and print how many bits and outputs differ from the first."""
    n_images = int(sys.argv[1]) if len(sys.argv) > 1 else 200
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        images = load("sample").images.take(np.arange(100))
        Model(LSH(N_BITS), Backbone("efficientnet-lite0", image_size=112, device="cpu")).fit(images).save(
            folder / "model"
        )
        first: dict[str, np.ndarray] = {}
        for machine, settings in MACHINES.items():
            one = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
            command = [sys.executable, __file__, "encode", str(folder), str(n_images)]
            subprocess.run(command, env={**os.environ, **one, **settings}, check=True)
            with np.load(folder / "codes.npz") as found:
                codes = {key: found[key] for key in found.files}
            first = first or codes
            flipped = int(np.bitwise_count(first["codes"] ^ codes["codes"]).sum())
            largest = np.abs(first["outputs"] - codes["outputs"]).max() / np.abs(first["outputs"]).max()
            print(f"{machine}: {flipped} of {n_images * N_BITS} bits differ, outputs by {largest:.1e}", flush=True)


if __name__ == "__main__":
    if sys.argv[1:2] == ["encode"]:
        encode(Path(sys.argv[2]), int(sys.argv[3]))
    else:
        main()
