"""What a command that is used wrongly must do."""

import subprocess


def fails_in_one_line(outcome: "subprocess.CompletedProcess[str]", *words: str) -> None:
    """Check that a program ended with exit code 2 and one line that holds these words."""
    assert (outcome.returncode, outcome.stdout, outcome.stderr.count("\n")) == (2, "", 1), outcome
    for word in words:
        assert word in outcome.stderr
