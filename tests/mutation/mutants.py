"""Change the code in small ways, and see whether a test notices: mutation testing with cosmic-ray.

``python tests/mutation/mutants.py [N] [MODULE...]`` tries N mutants of each module, evenly spaced; 0 is all. The
modules are changed in a copy of the repository. The tests of a mutant run in a fork of this process, in which the
libraries that they need are loaded already; property tests try a few examples first, and all if no test fails. Every
mutant that no test notices is printed with its change.
"""

import difflib
import importlib
import os
import resource
import shutil
import signal
import sys
import tempfile
import time
import warnings
from pathlib import Path

import pytest
from cosmic_ray.commands.init import _all_work_items
from cosmic_ray.mutating import use_mutation
from cosmic_ray.plugins import get_operator
from hypothesis import settings

ROOT = Path(__file__).parents[2]
OPTIONS = "-x -q -p no:cacheprovider -p no:xdist -p no:cov -W ignore::pytest.PytestAssertRewriteWarning"
QUICK = "--hypothesis-profile=quick"
TESTS = {
    "codes": ("src/ddsh/codes.py", "tests/test_codes.py"),
    "labels": ("src/ddsh/labels.py", "tests/test_labels.py"),
    "metrics": ("src/ddsh/evaluation/metrics.py", "tests/evaluation/test_metrics.py tests/evaluation/test_scores.py"),
    "hashtable": ("src/ddsh/index/_hashtable.py", "tests/index/test_buckets.py tests/index/test_compiled_table.py"),
    "bqp": ("src/ddsh/methods/_bqp.py", "tests/methods/test_bqp.py"),
}


def main() -> int:
    """Try mutants of the modules that the command line names, and print how many were noticed."""
    n_mutants = int(sys.argv[1]) if len(sys.argv) > 1 else 0
    os.environ["OMP_NUM_THREADS"] = "1"
    settings.register_profile("quick", deadline=None, derandomize=True, database=None, max_examples=10)
    sys.dont_write_bytecode = True  # two mutants of one second must not share bytecode
    with tempfile.TemporaryDirectory() as folder:
        for name in ("src", "tests", "pyproject.toml"):
            if (ROOT / name).is_dir():
                shutil.copytree(ROOT / name, Path(folder, name), ignore=shutil.ignore_patterns("__pycache__"))
            else:
                shutil.copy(ROOT / name, folder)
        os.chdir(folder)
        sys.path.insert(0, str(Path(folder, "src")))
        for module in sys.argv[2:] or TESTS:
            source, tests = TESTS[module]
            limit = 10 + 5 * prepare(tests)
            items = [item for item in _all_work_items([Path(source)], {}) if not _is_text(item.mutations[0], source)]
            n = min(n_mutants or len(items), len(items))
            killed = 0
            for item in (items[place * len(items) // n] for place in range(n)):
                (mutation,) = item.mutations
                operator = get_operator(mutation.operator_name)(**getattr(mutation, "operator_args", {}))
                with use_mutation(mutation.module_path, operator, mutation.occurrence) as (before, after):
                    if after is None or (run(f"{QUICK} {tests}", limit) and run(tests, limit)):
                        lines = difflib.unified_diff(before.split("\n"), (after or "").split("\n"), lineterm="", n=1)
                        print(module, *lines, sep="\n", flush=True)
                    else:
                        killed += 1
            print(f"{module}: {killed} of {n} mutants noticed, of {len(items)} in all", flush=True)
    return 0


def prepare(tests: str) -> float:
    """Load the libraries that the tests need, and return the CPU time of the tests, which must pass."""
    listed = Path("modules.txt")
    begun = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert run(tests, 600, listed), f"{tests} fail without a change"
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name in listed.read_text().split():
            try:
                importlib.import_module(name)
            except Exception:  # a part of a package that cannot be imported alone
                continue
    assert run(tests, 600), f"{tests} fail in a process that has loaded the libraries"
    return used.ru_utime - begun.ru_utime + used.ru_stime - begun.ru_stime


def run(tests: str, limit: float, listed: Path | None = None) -> bool:
    """Return whether the tests pass, in a fork with so many seconds of CPU time."""
    child = os.fork()
    if not child:
        nothing = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nothing, 1)
        os.dup2(nothing, 2)
        resource.setrlimit(resource.RLIMIT_CPU, (int(limit), int(limit) + 1))
        code = 1
        try:
            code = pytest.main([*OPTIONS.split(), *tests.split()])
            if listed is not None:
                own = "ddsh", "tests", "test_", "conftest", "_hypothesis_pytestplugin", "__"
                listed.write_text("\n".join(sorted(name for name in sys.modules if not name.startswith(own))))
        finally:
            os._exit(int(code))
    began = time.monotonic()
    while True:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return status == 0
        if time.monotonic() - began > 20 * limit:  # it waits for something
            os.kill(child, signal.SIGKILL)
        time.sleep(0.02)


def _is_text(mutation: object, source: str) -> bool:
    """Return whether a mutant only changes a type in a signature, such as the | of int | None."""
    line = Path(source).read_text().splitlines()[mutation.start_pos[0] - 1]  # type: ignore[attr-defined]
    is_operator = mutation.operator_name.startswith("core/ReplaceBinaryOperator_BitOr")  # type: ignore[attr-defined]
    return is_operator and ("->" in line or "None" in line)


if __name__ == "__main__":
    sys.exit(main())
