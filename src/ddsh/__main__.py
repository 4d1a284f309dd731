"""``python -m ddsh`` is the command line."""

from ddsh.cli import main

main()
