"""Replay the writes of a search index as a disk would keep them that loses power, and open the result.

``python tests/faults/power_loss.py`` needs strace. It records every write, sync, rename and removal while images are
added, removed and refreshed. For many moments it then builds folders as they may be found after a power failure: all
that was synced by then, and of later writes all, none, or some chosen at random. Every folder must open, pass
``verify`` and hold all changes whose call had returned.
"""

import json
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from ddsh import ImageSearch, Model
from ddsh.methods.lsh import LSH

CALLS = (
    "openat,creat,write,pwrite64,fsync,fdatasync,rename,renameat,renameat2,unlink,unlinkat,mkdir,mkdirat,rmdir,"
    "ftruncate,close,dup,dup2,dup3,fcntl,lseek"
)
_LINE = re.compile(r"^(?:\[pid +)?(\d+)\]? +(\w+)\((.*)\) += (-?\d+)")
_TEXT = re.compile(r'"((?:\\x[0-9a-f]{2})*)"')
MARK = "acknowledged"


@dataclass
class File:
    """An inode: what has been written, and what was synced."""

    data: bytearray = field(default_factory=bytearray)
    synced: bytes = b""
    pending: list[tuple[int, bytes] | int] = field(default_factory=list)  # writes, or the size of a truncation

    def change(self, change: "tuple[int, bytes] | int") -> None:
        """Apply a write or a truncation."""
        _apply(self.data, change)
        self.pending.append(change)

    def sync(self) -> None:
        """Make all writes durable."""
        self.synced, self.pending = bytes(self.data), []

    def after_failure(self, keep: float, chance: random.Random) -> bytes:
        """Return the content after a power failure: what was synced, and each later write with some probability."""
        data = bytearray(self.synced)
        for change in self.pending:
            if chance.random() < keep:
                _apply(data, change)
        return bytes(data)


def _apply(data: bytearray, change: "tuple[int, bytes] | int") -> None:
    if isinstance(change, int):
        del data[change:]
        data.extend(bytes(max(0, change - len(data))))
        return
    place, written = change
    data.extend(bytes(max(0, place - len(data))))
    data[place : place + len(written)] = written


def work(folder: Path) -> None:
    """Change an index; after each call that has returned, a line is written to standard output."""
    rng = np.random.default_rng(0)
    pixels = rng.integers(0, 256, (12, 8, 8, 3), np.uint8)
    with ImageSearch.open(folder) as search:
        for number, image in enumerate(pixels):
            if number % 4 == 3:
                search.remove([search.ids(limit=1)[0]])
            else:
                search.add(image, labels=["new"])
            os.write(1, f"{MARK} {search.ids()}\n".encode())
        search.refresh()


class Disk:
    """The files below a folder, as a recorded program changes them.

    Names of files are durable when their folder was synced, or at once where a call says so: SQLite and ddsh sync the
    folder where they rely on a name. Names that are not synced are kept here, as ext4 and XFS mostly do; the content of
    files is what is lost.
    """

    def __init__(self, folder: Path) -> None:
        self.root = os.fspath(folder)
        self.files: dict[str, File] = {}
        self.folders: set[str] = set()
        for path in folder.rglob("*"):
            if path.is_dir():
                self.folders.add(os.fspath(path))
            else:
                data = path.read_bytes()
                self.files[os.fspath(path)] = File(bytearray(data), data)
        self._open: dict[int, tuple[File, list[int], bool]] = {}

    def call(self, name: str, arguments: str, result: int) -> None:
        """Follow one system call."""
        texts = [bytes.fromhex(text.replace("\\x", "")) for text in _TEXT.findall(arguments)]
        paths = [os.path.normpath(text.decode("utf-8", "replace")) for text in texts]
        number = int(match[0]) if (match := re.match(r"-?\d+", arguments)) else -1
        if name in ("openat", "creat"):
            self._opened(paths[0], arguments, result)
        elif (name in ("dup", "dup2", "dup3") and number in self._open) or (
            name == "fcntl" and "DUPFD" in arguments and number in self._open
        ):
            self._open[result] = self._open[number]
        elif name == "close":
            self._open.pop(number, None)
        elif name in ("rename", "renameat", "renameat2"):
            self._renamed(*paths[:2])
        elif name in ("unlink", "unlinkat", "rmdir"):
            self.files.pop(paths[0], None)
            self.folders.discard(paths[0])
        elif name in ("mkdir", "mkdirat") and paths[0].startswith(self.root):
            self.folders.add(paths[0])
        elif number in self._open:
            self._changed(name, arguments, texts, result, *self._open[number])

    def _opened(self, path: str, arguments: str, handle: int) -> None:
        self._open.pop(handle, None)
        if not path.startswith(self.root) or path in self.folders:
            return
        if path not in self.files and "O_CREAT" not in arguments:
            return
        file = self.files.setdefault(path, File())
        if "O_TRUNC" in arguments and file.data:
            file.change(0)
        self._open[handle] = file, [0], "O_APPEND" in arguments

    def _renamed(self, old: str, new: str) -> None:
        for path in [path for path in self.files if path == old or path.startswith(old + "/")]:
            self.files[new + path[len(old) :]] = self.files.pop(path)
        for path in [path for path in self.folders if path == old or path.startswith(old + "/")]:
            self.folders.discard(path)
            self.folders.add(new + path[len(old) :])

    def _changed(self, name, arguments, texts, result, file, place, appends) -> None:  # type: ignore[no-untyped-def]
        numbers = [int(value) for value in re.findall(r", (-?\d+)", arguments)]
        if name == "write":
            place[0] = len(file.data) if appends else place[0]
            file.change((place[0], texts[0][:result]))
            place[0] += result
        elif name == "pwrite64":
            file.change((numbers[-1], texts[0][:result]))
        elif name == "ftruncate":
            file.change(numbers[0])
        elif name == "lseek":
            place[0] = result
        elif name in ("fsync", "fdatasync"):
            file.sync()

    def after_failure(self, target: Path, keep: float, chance: random.Random) -> None:
        """Write the files as they may be found after a power failure."""
        for folder in sorted(self.folders):
            (target / os.path.relpath(folder, self.root)).mkdir(parents=True, exist_ok=True)
        for path, file in self.files.items():
            place = target / os.path.relpath(path, self.root)
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(file.after_failure(keep, chance))


def joined(lines: list[str]) -> list[str]:
    """Return the lines of a recording with calls put together that another thread interrupted."""
    begun: dict[str, str] = {}
    whole = []
    for line in lines:
        process = line.split(" ", 1)[0]
        if line.endswith("<unfinished ...>"):
            begun[process] = line.removesuffix("<unfinished ...>").rstrip()
        elif resumed := re.match(r"\d+ +<\.\.\. \w+ resumed>(.*)", line):
            whole.append(begun.pop(process, "") + resumed[1])
        else:
            whole.append(line)
    return whole


def record(folder: Path, log: Path) -> None:
    """Run :func:`work` under strace."""
    recorder = ["strace", "-f", "-xx", "-s", "10000000", "-e", f"trace={CALLS}", "-o", log]
    subprocess.run([*recorder, sys.executable, __file__, "work", folder], check=True, stdout=subprocess.DEVNULL)


def replay(before: Path, folder: Path, log: Path, n_moments: int, seed: int) -> int:
    """Replay a recording up to many moments, check the folders and return how many there were."""
    chance, lines = random.Random(seed), joined(log.read_text(errors="replace").splitlines())
    shutil.rmtree(folder)
    shutil.copytree(before, folder)
    disk, n_acknowledged, n_checked = Disk(folder), 0, 0
    matches = [match for match in map(_LINE.match, lines) if match and int(match[4]) >= 0]
    changing = [at for at, match in enumerate(matches) if match[2] not in ("close", "lseek", "openat", "fcntl", "dup")]
    moments = set(chance.sample(changing, min(n_moments, len(changing))))
    with ImageSearch.open(before) as search:
        states = [search.ids()]
    states += [_acknowledged(match) for match in matches if _is_mark(match)]
    for at, match in enumerate(matches):
        disk.call(match[2], match[3], int(match[4]))
        n_acknowledged += _is_mark(match)
        if at in moments:
            allowed = states[n_acknowledged : n_acknowledged + 2]
            for keep in (0.0, 0.5, 1.0):
                with tempfile.TemporaryDirectory() as found:
                    disk.after_failure(Path(found) / "index", keep, chance)
                    check(Path(found) / "index", allowed, f"call {at} ({match[2]}), {keep:.0%} of unsynced writes")
                n_checked += 1
    return n_checked


def _is_mark(match: re.Match[str]) -> bool:
    """Return whether a call writes the line after a change."""
    return match[2] == "write" and MARK.encode().hex() in match[3].replace("\\x", "")


def _acknowledged(match: re.Match[str]) -> list[int]:
    """Return the ids in the line after a change."""
    line = bytes.fromhex(_TEXT.findall(match[3])[0].replace("\\x", "")).decode()
    return json.loads(line.removeprefix(MARK))


def check(folder: Path, allowed: list[list[int]], moment: str) -> None:
    """Open a folder and see that it is whole: it has the acknowledged changes, and at most the one under way."""
    with ImageSearch.open(folder) as search:
        problems = search.verify()
        assert not problems, (moment, problems)
        assert search.ids() in allowed, (moment, search.ids(), allowed)
        assert len(search.query(search.ids(limit=1)[0], k=100)) == len(search), moment


def main() -> None:
    """Record, replay, and print how many folders were checked."""
    n_moments = int(sys.argv[1]) if len(sys.argv) > 1 else 200
    with tempfile.TemporaryDirectory() as name:
        home = Path(os.path.realpath(name))
        pixels = np.random.default_rng(1).integers(0, 256, (8, 8, 8, 3), np.uint8)
        with ImageSearch.create(home / "index", Model(LSH(16)).fit(pixels)) as search:
            search.add(list(pixels))
        shutil.copytree(home / "index", home / "before")
        record(home / "index", home / "log")
        n_checked = replay(home / "before", home / "index", home / "log", n_moments, seed=1)
    print(f"{n_checked} folders after a power failure: all whole, no acknowledged change lost")


if __name__ == "__main__":
    work(Path(sys.argv[2])) if sys.argv[1:2] == ["work"] else main()
