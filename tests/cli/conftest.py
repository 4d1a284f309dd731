import sys
from dataclasses import dataclass

import pytest

from ddsh.cli import main


@dataclass(frozen=True)
class Outcome:
    returncode: int
    stdout: str
    stderr: str


@pytest.fixture
def ddsh(capsys):
    """Run the command line in this process, which starts faster than the program."""

    def run(*arguments):
        before, sys.argv = sys.argv, ["ddsh", *map(str, arguments)]
        try:
            with pytest.raises(SystemExit) as caught:
                main()
        finally:
            sys.argv = before
        return Outcome(caught.value.code, *capsys.readouterr())

    return run
