"""Where results are made: the commit of the code, and the machine."""

import os
import platform
import shutil
import subprocess
import sys
from pathlib import Path

from ddsh.evaluation import Machine

_SECONDS = 20.0


def commit_of(folder: Path) -> str | None:
    """Return the git commit of the code in `folder`, ``-dirty`` appended if it was changed since.

    Parameters
    ----------
    folder : path
        A package; None is returned unless git keeps its ``__init__.py``.
    """
    if _git(folder, "ls-files", "--error-unmatch", "__init__.py") is None:
        return None
    commit, changes = _git(folder, "rev-parse", "HEAD"), _git(folder, "status", "--porcelain", "--", ".")
    if commit is None or changes is None:
        return None
    return f"{commit}-dirty" if changes else commit


def this_machine(device: str) -> Machine:
    """Return what this process runs on, with its networks on `device`."""
    system = f"{platform.system()}-{platform.release()}-{platform.machine()}"
    return Machine(system, _cpu(), n_cores(), _memory(), device)


def _git(folder: Path, *arguments: str) -> str | None:
    """Return what a git command says, or None if it fails or there is no git."""
    program = shutil.which("git")
    if program is None:
        return None
    try:
        done = subprocess.run(  # noqa: S603 -- fixed commands
            [program, "-C", str(folder), *arguments], capture_output=True, text=True, timeout=_SECONDS, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip()


def _cpu() -> str:
    """Return the processor's name; Linux tells it only in a file."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        lines = []
    named = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(named, None) or platform.processor() or platform.machine()


def n_cores() -> int:
    """Return how many processor cores this process may use."""
    return len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1


def _memory() -> int:
    """Return the bytes of memory of the machine; 0 where the system does not say."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, OSError, ValueError):
        return 0
