"""Run every command that writes on a disk with little space, on a read-only one and without permission.

``python tests/faults/full_disk.py`` needs Linux and root, for a small tmpfs. A command must end with one line and exit
code 2, or do its work; what was there before must be whole, and the same command must succeed afterwards.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from PIL import Image

import ddsh.experiment
import ddsh.export
import ddsh.methods.ddsh
import ddsh.report
import ddsh.search.engine  # noqa: F401 -- imported once, before the forks
from ddsh.cli import main as ddsh_main

DISK_KB = 16_384
FREE_KB = (0, 8, 64, 256, 1024)
NOBODY = 65534
LONG = ("demo", "tune")  # these take minutes if there is space, so they are run without
TRAIN = ("--method", "ddsh", "--bits", "8", "--look-bits", "0", "--preset", "scratch", "--backbone", "small",
         "--epochs", "2", "--queries-per-class", "3", "--device", "cpu")  # fmt: skip
COMMANDS: dict[str, tuple[str, ...]] = {
    "train": ("train", "{home}/photos", *TRAIN, "--out", "{disk}/trained"),
    "encode": ("encode", "{home}/model", "{home}/photos", "--out", "{disk}/codes.npz"),
    "export": ("export", "{home}/deep", "--onnx", "{disk}/network.onnx"),
    "reproduce": ("reproduce", "{home}/tiny.toml", "--results", "{disk}/results"),
    "report": ("report", "{home}/results", "--out", "{disk}/report"),
    "tune": ("tune", "{home}/photos", "--methods", "dpsh", "--budget", "1", "--results", "{disk}/tuned"),
    "index create": ("index", "{home}/model", "{home}/photos", "--out", "{disk}/new"),
    "index add": ("index", "add", "{disk}/index", "{home}/more"),
    "index remove": ("index", "remove", "{disk}/index", "1", "2"),
    "index refresh": ("index", "refresh", "{disk}/index", "--checksum"),
    "index upgrade": ("index", "upgrade", "{disk}/index", "{home}/other"),
    "index verify": ("index", "verify", "{disk}/index"),
    "index info": ("index", "info", "{disk}/index"),
    "search": ("search", "{disk}/index", "{home}/photos/cat/0.png", "-k", "3"),
    "search --html": ("search", "{disk}/index", "1", "--html", "{disk}/found.html"),
    "duplicates": ("duplicates", "{disk}/index"),
    "demo": ("demo", "--out", "{disk}/demo"),
}
EXPERIMENT = """
dataset = "sample"
protocol = "sample"
bits = [8]
seeds = [0]

[methods.lsh]
"""


def run(*arguments: object, user: int = 0) -> tuple[int, str]:
    """Run the command line in a fork of this process, which has imported all it needs; return exit code and errors."""
    with tempfile.TemporaryFile() as errors:
        if (child := os.fork()) == 0:
            os.dup2(errors.fileno(), 2)
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
            sys.argv = ["ddsh", *map(str, arguments)]
            if user:
                os.setgid(user)
                os.setuid(user)
            code = 1
            try:
                ddsh_main()
            except SystemExit as end:
                code = int(end.code or 0)
            except BaseException:
                sys.excepthook(*sys.exc_info())
            os._exit(code)
        _, status = os.waitpid(child, 0)
        errors.seek(0)
        return os.waitstatus_to_exitcode(status), errors.read().decode(errors="replace")


def prepare(home: Path) -> None:
    """Make photos, models, results and an index."""
    rng = np.random.default_rng(0)
    for number in range(60):
        folder = home / ("more" if number % 3 == 2 else "photos") / ("cat", "dog")[number % 2]
        folder.mkdir(parents=True, exist_ok=True)
        Image.fromarray(rng.integers(0, 256, (32, 32, 3), np.uint8)).save(folder / f"{number}.png")
    (home / "tiny.toml").write_text(EXPERIMENT)
    for arguments in (
        ("train", home / "photos", "--method", "lsh", "--bits", 8, "--out", home / "model"),
        ("train", home / "photos", "--method", "itq", "--bits", 8, "--out", home / "other"),
        ("train", home / "photos", *TRAIN, "--out", home / "deep"),
        ("index", home / "model", home / "photos", "--out", home / "index"),
        ("reproduce", home / "tiny.toml", "--results", home / "results"),
    ):
        code, errors = run(*arguments)
        assert code == 0, (arguments, errors)
    subprocess.run(["chmod", "-R", "a+rX", home], check=True)


@contextmanager
def disk(folder: Path):
    """Mount a small file system that holds an index."""
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={DISK_KB}k", "none", folder], check=True)
    try:
        yield
    finally:
        subprocess.run(["umount", "-l", folder], check=True)


def fill(folder: Path, free_kb: int) -> None:
    """Leave so much space on the disk."""
    status = os.statvfs(folder)
    n_bytes = max(0, status.f_bavail * status.f_frsize - free_kb * 1024)
    (folder / "filler").write_bytes(bytes(n_bytes))


def judge(code: int, errors: str) -> str:
    """Return what a command did, in capitals if it should not have."""
    last = (errors.splitlines() or [""])[-1]
    if "Traceback" in errors or code not in (0, 2):
        return f"CRASHED ({code}): {errors.strip()[-300:]}"
    if code == 2 and not last.startswith("ddsh: "):
        return f"UNCLEAR: {errors.strip()[-300:]}"
    return "done" if code == 0 else last


def attempt(name: str, home: Path, folder: Path, *, free_kb: int = 0, fault: str = "full") -> list[str]:
    """Run one command on a faulty disk and again on a good one; return what it did, and what is wrong."""
    arguments = [part.format(home=home, disk=folder) for part in COMMANDS[name]]
    with disk(folder):
        shutil.copytree(home / "index", folder / "index")
        run("search", folder / "index", 1)  # as SQLite leaves it after use
        user = 0
        if fault == "full":
            fill(folder, free_kb)
        elif fault == "read-only":
            subprocess.run(["mount", "-o", "remount,ro", folder], check=True)
        else:
            subprocess.run(["chmod", "-R", "a+rX,go-w", folder], check=True)
            user = NOBODY
        found = [judge(*run(*arguments, user=user))]
        if fault == "read-only":
            subprocess.run(["mount", "-o", "remount,rw", folder], check=True)
        (folder / "filler").unlink(missing_ok=True)
        problems = run("index", "verify", folder / "index")
        if problems[0]:
            found.append(f"LOST: {problems[1]}")
        if found[0] != "done" and name not in LONG:
            interrupted = name == "train" and (folder / "trained" / "checkpoints").exists()
            outcome = judge(*run(*arguments, *(["--resume"] if interrupted else [])))
            if outcome != "done":
                found.append(f"NOT DONE AFTERWARDS: {outcome}")
    return found


def main() -> None:
    """Run all commands, or those that are named, on all disks, and print what each did."""
    wanted = sys.argv[1:] or list(COMMANDS)
    failed = n_tries = 0
    with tempfile.TemporaryDirectory() as name:
        home = Path(name)
        home.chmod(0o755)
        prepare(home)
        folder = home / "disk"
        folder.mkdir()
        for command in wanted:
            faults = [("full", free) for free in FREE_KB if command not in LONG or free == 0]
            for fault, free_kb in [*faults, ("read-only", 0), ("permission", 0)]:
                found = attempt(command, home, folder, free_kb=free_kb, fault=fault)
                n_tries += 1
                failed += any(each.split(":")[0].split(" ")[0].isupper() for each in found)
                what = f"{free_kb:,} kB free" if fault == "full" else fault
                print(f"{command:14} {what:14} {'; '.join(found).replace(str(folder), 'DISK')}", flush=True)
    print(f"{n_tries} tries, {failed} failed")
    sys.exit(bool(failed))


if __name__ == "__main__":
    main()
