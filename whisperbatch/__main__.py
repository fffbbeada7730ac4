"""Run the command line: `python -m whisperbatch`."""

from whisperbatch.cli import main

main()
