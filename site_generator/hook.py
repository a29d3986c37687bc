"""mkdocs' hook: adds the generated pages to those of ``docs/``."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import plotly
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

import ssdsim
from site_generator import drawn, notebooks
from site_generator.command_line import command_line_page
from site_generator.gallery import gallery
from site_generator.json_reference import json_page
from site_generator.options_reference import reference
from site_generator.python_reference import python_page
from site_generator.touch import touched

_PROJECT = Path(__file__).parents[1]
_FROM_ROOT = {
    "index.md": "README.md",
    "changelog.md": "CHANGELOG.md",
    "contributing.md": "CONTRIBUTING.md",
    "conduct.md": "CODE_OF_CONDUCT.md",
    "security.md": "SECURITY.md",
    "releasing.md": "RELEASING.md",
}

_META = {"changelog.md": "---\nsearch: {exclude: true}\n---\n\n"}
"""Of pages. The changelog names everything that was ever there, so it was found before what is."""
_WITH_FIGURES = {"gallery.md": "", "how-to/serve.md": "../"}
"""Pages whose blocks are run, with the way from each to the site's root."""


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Say of which version this is, below every page."""
    config.copyright = f"ssdsim {ssdsim.__version__}, {config.copyright}"
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add what is no file of ``docs/``."""
    for path, content in _pages():
        file = File.generated(config, path, content=content)
        file.edit_uri = f"../{_FROM_ROOT[path]}" if path in _FROM_ROOT else None
        files.append(file)
    script = Path(plotly.__file__).parent / "package_data" / "plotly.min.js"
    files.append(File.generated(config, "assets/plotly.min.js", abs_src_path=str(script)))
    files.append(File.generated(config, drawn.TEMPLATES, content=drawn.templates()))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Add what is worked out when the site is built: figures of commands, and those that follow sliders."""
    if page.file.src_path in _WITH_FIGURES:
        return gallery(markdown, _WITH_FIGURES[page.file.src_path])
    if page.file.src_path == "theory.md":
        return touched(markdown, "")
    return markdown


def _pages() -> Iterator[tuple[str, str]]:
    for path, source in _FROM_ROOT.items():
        yield path, _META.get(path, "") + _for_site((_PROJECT / source).read_text(encoding="utf-8"))
    yield "reference/cli.md", command_line_page()
    yield "reference/options.md", reference()
    yield "reference/json.md", json_page()
    yield "reference/python.md", python_page()
    sizes = notebooks.sizes_asked_for()
    index = (notebooks.FOLDER / "README.md").read_text(encoding="utf-8")
    yield "notebooks/index.md", index.replace(".ipynb)", ".md)")
    for name in notebooks.names():
        yield f"notebooks/{name}.md", notebooks.shown(name, sizes, "../")


def _for_site(text: str) -> str:
    """A page of the repository's root, with its links as the site has them."""
    for page, source in _FROM_ROOT.items():
        text = text.replace(f"]({source}", f"]({page}")
    text = text.replace("](notebooks/README.md", "](notebooks/index.md")
    return re.sub(r'(\]\(|src=")docs/', r"\1", text)
