"""What mkdocs adds to the pages of ``docs/``: references made of the code itself, executed notebooks, the README."""
