"""Where datasets come from: official addresses and checksums."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath
from types import MappingProxyType
from urllib.parse import urlsplit


@dataclass(frozen=True)
class RemoteFile:
    """A file at an official address.

    Parameters
    ----------
    url : str
        Its http or https address.
    md5 : str
        The checksum its makers (or those who mirror it) publish, in lower-case hexadecimal.
    n_bytes : int, optional
        Its size, if known.
    unpack_to : str, optional
        The folder that unpacking the archive creates; None for a plain file.
    holds : tuple of str
        The files in it that matter.
    """

    url: str
    md5: str
    n_bytes: int | None = None
    unpack_to: str | None = None
    holds: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """The last component of the address."""
        return PurePosixPath(urlsplit(self.url).path).name


@dataclass(frozen=True)
class Source:
    """Where a dataset comes from.

    Parameters
    ----------
    name : str
        The name to fetch it by.
    homepage : str
        The page of its makers.
    folder : str
        The sub-folder of the root for plain files; empty for archives, which bring their own.
    files : tuple of RemoteFile
        The files.
    """

    name: str
    homepage: str
    folder: str
    files: tuple[RemoteFile, ...]


def _cifar10(name: str, archive: str, md5: str, n_bytes: int | None, folder: str, suffix: str) -> Source:
    """Describe one of the three editions of CIFAR-10."""
    home = "https://www.cs.toronto.edu/~kriz/"
    holds = (*(f"data_batch_{number}{suffix}" for number in range(1, 6)), f"test_batch{suffix}")
    return Source(name, f"{home}cifar.html", "", (RemoteFile(home + archive, md5, n_bytes, folder, holds),))


def _four_parts(name: str, homepage: str, base: str, sums: tuple[tuple[str, int], ...]) -> Source:
    """Describe a set in the four files of MNIST."""
    files = ("train-images-idx3", "train-labels-idx1", "t10k-images-idx3", "t10k-labels-idx1")
    parts = zip(files, sums, strict=True)
    return Source(name, homepage, name, tuple(RemoteFile(f"{base}{file}-ubyte.gz", *sum_) for file, sum_ in parts))


_ALL = (
    _cifar10(
        "cifar10",
        "cifar-10-binary.tar.gz",
        "c32a1d4ab5d03f1284b67883e8d87530",
        170_052_171,
        "cifar-10-batches-bin",
        ".bin",
    ),
    _cifar10(
        "cifar10-python",
        "cifar-10-python.tar.gz",
        "c58f30108f718f92721af3b95e74349a",
        170_498_071,
        "cifar-10-batches-py",
        "",
    ),
    _cifar10(
        "cifar10-matlab",
        "cifar-10-matlab.tar.gz",
        "70270af85842c9e89bb428ec9976c926",
        None,
        "cifar-10-batches-mat",
        ".mat",
    ),
    Source(
        "svhn",
        "http://ufldl.stanford.edu/housenumbers/",
        "svhn",
        (
            RemoteFile(
                "http://ufldl.stanford.edu/housenumbers/train_32x32.mat",
                "e26dedcc434d2e4c54c9b2d4a06d8373",
                182_040_794,
            ),
            RemoteFile(
                "http://ufldl.stanford.edu/housenumbers/test_32x32.mat",
                "eb5a983be6a315427106f1b164d9cef3",
                64_275_384,
            ),
        ),
    ),
    _four_parts(
        "fashion-mnist",
        "https://github.com/zalandoresearch/fashion-mnist",
        "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/",
        (
            ("8d4fb7e6c68d591d4c3dfef9ec88bf0d", 26_421_880),
            ("25c81989df183df01b3e8a0aad5dffbe", 29_515),
            ("bef4ecab320f06d8554ea6380940ec79", 4_422_102),
            ("bb300cfdad3c16e7a12a480ee83cd310", 5_148),
        ),
    ),
    _four_parts(
        "mnist",
        "http://yann.lecun.com/exdb/mnist/",
        "https://ossci-datasets.s3.amazonaws.com/mnist/",
        (
            ("f68b3c2dcbeaaa9fbdd348bbdeb94873", 9_912_422),
            ("d53e105ee54ea40749a09fcbcd1e9432", 28_881),
            ("9fb629c4189551a2d022fa330f9573f3", 1_648_877),
            ("ec29112dd5afa0611ce80d1b7f02629c", 4_542),
        ),
    ),
)

SOURCES: Mapping[str, Source] = MappingProxyType({source.name: source for source in _ALL})
"""The datasets that can be fetched, by name."""

NOT_FETCHABLE: Mapping[str, str] = MappingProxyType(
    {
        "nuswide": "The images of nuswide cannot be downloaded from an official address any more; "
        "get them from the makers "
        "(https://lms.comp.nus.edu.sg/wp-content/uploads/2019/research/nuswide/NUS-WIDE.html) "
        "and put the files into ImageList/, Groundtruth/AllLabels/ and Flickr/ or images/ under the root.",
    }
)
"""Datasets that exist but cannot be fetched, and what to do instead, by name."""
