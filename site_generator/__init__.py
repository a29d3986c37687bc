"""Additions of mkdocs to ``docs/``: references made of the code itself, executed notebooks, the README."""
