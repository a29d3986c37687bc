"""``python -m ssdsim``."""

from ssdsim.cli.main import main

main()
