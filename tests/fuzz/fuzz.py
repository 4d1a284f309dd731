"""Fuzz the targets with atheris, guided by coverage: ``python tests/fuzz/fuzz.py TARGET [options of libFuzzer]``.

Without a target, all of them are fuzzed one after the other, ``make fuzz`` does that with two million executions in
all. A finding is written to ``build/fuzz/TARGET``; copy it to ``tests/fuzz/reproducers/TARGET``, where the test suite
repeats it.
"""

import logging
import subprocess
import sys
import warnings
from pathlib import Path

import atheris

with atheris.instrument_imports(include=["ddsh"]):
    from targets import TARGETS, seeds

from ddsh.errors import DdshError

OUT = Path("build/fuzz")
LIMITS = ("-timeout=5", "-rss_limit_mb=1024", "-max_len=4096", "-print_final_stats=1")
SLOW = {
    "archive": 0.02,
    "http": 0.05,
    "connection": 0.1,
    "npz": 0.1,
    "image": 0.3,
    "table": 0.3,
    "index_files": 0.3,
    "experiment": 0.3,
}
"""Targets that take longer, and the share of the executions of the others that they get."""


def fuzz(name: str, *options: str) -> None:
    """Fuzz one target; this process ends with it."""
    warnings.simplefilter("ignore")
    logging.disable()
    corpus = OUT / name / "corpus"
    corpus.mkdir(parents=True, exist_ok=True)
    for number, data in enumerate(seeds()[name]):
        (corpus / f"seed-{number}").write_bytes(data)

    def run(data: bytes) -> None:
        try:
            TARGETS[name](data)
        except DdshError:
            return

    atheris.Setup([sys.argv[0], f"-artifact_prefix={OUT / name}/", *LIMITS, *options, str(corpus)], run)
    atheris.Fuzz()


def fuzz_all(n_runs: int) -> int:
    """Fuzz all targets, each in a process of its own; return how many had findings."""
    share = n_runs / sum(SLOW.get(name, 1) for name in TARGETS)
    failed = 0
    for name in sorted(TARGETS, key=lambda name: -SLOW.get(name, 1)):
        runs = round(share * SLOW.get(name, 1))
        command = [sys.executable, __file__, name, f"-runs={runs}", "-seed=1"]
        outcome = subprocess.run(command, capture_output=True, text=True, errors="replace")
        failed += outcome.returncode != 0
        stats = [line for line in outcome.stderr.splitlines() if line.startswith("stat::number_of_executed_units")]
        done = stats[0].split()[-1] if stats else "?"
        print(f"{name:14} {done} executions, exit code {outcome.returncode}", flush=True)
        if outcome.returncode:
            print(outcome.stderr[-3000:], flush=True)
    return failed


if __name__ == "__main__":
    if len(sys.argv) > 1 and sys.argv[1] in TARGETS:
        fuzz(*sys.argv[1:])
    else:
        sys.exit(fuzz_all(int(sys.argv[1]) if len(sys.argv) > 1 else 2_100_000))
