"""Packages that only some verbs need: whether one works, and which extra of ssdsim installs one that is missing."""

from __future__ import annotations

import re
from functools import cache
from importlib import import_module
from importlib.metadata import PackageNotFoundError, distribution, requires


@cache
def failure(package: str) -> Exception | None:
    """The error of importing a package (an installed one may not fit the others); None if it works."""
    try:
        import_module(package)
    except Exception as error:
        return error
    return None


def install_hint(error: ModuleNotFoundError) -> str | None:
    """Advice what to install for a module that is missing; None where no extra of ssdsim brings it."""
    package = (error.name or "").partition(".")[0]
    extra = _extra_of(package)
    return extra and f"this needs {package}, which is not installed: {install(extra)}"


@cache
def install(extra: str) -> str:
    """The command that installs an extra: of the folder, where ssdsim was installed from one."""
    try:
        origin = distribution("ssdsim").read_text("direct_url.json") or ""
    except PackageNotFoundError:  # a checkout on the path
        origin = "dir_info"
    return f"pip install '{'.' if 'dir_info' in origin else 'ssdsim'}[{extra}]'"


def _extra_of(package: str) -> str | None:
    """The smallest extra that has the package, by the installed metadata."""
    try:
        needed = requires("ssdsim") or []
    except PackageNotFoundError:  # a checkout on the path
        return None
    packages: dict[str, list[str]] = {}
    for line in needed:
        if matched := re.match(r"([\w.-]+).*\bextra == ['\"]([\w-]+)", line):
            packages.setdefault(matched[2], []).append(matched[1])
    having = [extra for extra, names in packages.items() if package in names]
    return min(having, key=lambda extra: len(packages[extra]), default=None)
