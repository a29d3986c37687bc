"""``python -m ssdsim``."""

from ssdsim.cli.entry import main

main()
