"""Provenance of results: the commit of the code, and the machine."""

import os
import platform
import shutil
import subprocess
from pathlib import Path

import joblib

from ddsh.evaluation import Machine

__all__ = ["commit_of", "this_machine"]

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
    """Describe this machine, with networks running on `device`."""
    system = f"{platform.system()}-{platform.release()}-{platform.machine()}"
    try:  # Linux has the processor's name only in a file
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        lines = []
    named = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    cpu = next(named, None) or platform.processor() or platform.machine()
    try:
        memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, OSError, ValueError):  # not known on every system
        memory = 0
    return Machine(system=system, cpu=cpu, cores=joblib.cpu_count(), memory=memory, device=device)


def _git(folder: Path, *arguments: str) -> str | None:
    """Return the output of a git command, or None if it fails or there is no git."""
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
