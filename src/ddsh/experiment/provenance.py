"""Provenance of results: commit of the code, and machine."""

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
    """Return the git commit of a package, with ``-dirty`` appended if it has changes.

    Parameters
    ----------
    folder : path
        Folder of the package; the result is None unless git tracks its ``__init__.py``.
    """
    if _git(folder, "ls-files", "--error-unmatch", "__init__.py") is None:
        return None
    commit, changes = _git(folder, "rev-parse", "HEAD"), _git(folder, "status", "--porcelain", "--", ".")
    if commit is None or changes is None:
        return None
    return f"{commit}-dirty" if changes else commit


def this_machine(device: str) -> Machine:
    """Return the description of this machine, with `device` for networks."""
    system = f"{platform.system()}-{platform.release()}-{platform.machine()}"
    try:  # Linux has the name of the processor only in a file
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        lines = []
    named = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    cpu = next(named, None) or platform.processor() or platform.machine()
    try:
        memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, OSError, ValueError):  # unknown on some systems
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
