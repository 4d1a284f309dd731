"""Change the code in small ways, and see whether a test notices: mutation testing with cosmic-ray.

``python tests/mutation/mutants.py [N] [MODULE...]`` tries N mutants of each module, drawn with a fixed seed; 0 is all.
The modules are changed in a copy of the repository. Every mutant that no test notices is printed with its change.
"""

import os
import random
import shutil
import sys
import tempfile
from pathlib import Path

from cosmic_ray.commands.init import _all_work_items
from cosmic_ray.mutating import mutate_and_test
from cosmic_ray.work_item import TestOutcome

ROOT = Path(__file__).parents[2]
TIMEOUT = 600.0
TESTS = {
    "codes": ("src/ddsh/codes.py", "tests/test_codes.py"),
    "labels": ("src/ddsh/labels.py", "tests/test_labels.py"),
    "metrics": ("src/ddsh/evaluation/metrics.py", "tests/evaluation/test_scores.py tests/evaluation/test_counts.py"),
    "hashtable": ("src/ddsh/index/_hashtable.py", "tests/index/test_buckets.py"),
    "bqp": ("src/ddsh/methods/_bqp.py", "tests/methods/test_bqp.py"),
}


def main() -> None:
    """Try mutants of the modules that the command line names, and print how many were noticed."""
    n_mutants = int(sys.argv[1]) if len(sys.argv) > 1 else 0
    with tempfile.TemporaryDirectory() as folder:
        for name in ("src", "tests", "pyproject.toml"):
            copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy
            copy(ROOT / name, Path(folder, name))
        os.chdir(folder)
        os.environ["PYTHONPATH"] = str(Path(folder, "src"))
        for module in sys.argv[2:] or TESTS:
            source, tests = TESTS[module]
            command = f"{sys.executable} -m pytest -x -q -p no:cacheprovider {tests}"
            items = [item for item in _all_work_items([Path(source)], {}) if not _is_text(item.mutations[0], source)]
            drawn = random.Random(0).sample(items, min(n_mutants or len(items), len(items)))
            killed = 0
            for item in drawn:
                result = mutate_and_test(item.mutations, command, TIMEOUT)
                if result.test_outcome is TestOutcome.SURVIVED:
                    print(result.diff, flush=True)
                else:
                    killed += 1
            print(f"{module}: {killed} of {len(drawn)} mutants noticed, of {len(items)} in all", flush=True)


def _is_text(mutation: object, source: str) -> bool:
    """Return whether a mutant only changes a type in a signature, such as the | of int | None."""
    line = Path(source).read_text().splitlines()[mutation.start_pos[0] - 1]  # type: ignore[attr-defined]
    is_operator = mutation.operator_name.startswith("core/ReplaceBinaryOperator_BitOr")  # type: ignore[attr-defined]
    return is_operator and ("->" in line or "None" in line)


if __name__ == "__main__":
    main()
