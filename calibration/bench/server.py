"""A server as it describes itself: engine, version, model."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from calibration.bench.connection import Connection
from ssdsim.base.documents import within
from ssdsim.base.errors import InputError, nearest
from ssdsim.base.record import Record, field
from ssdsim.readers.acceptance.fields import text_in

ENGINES: Mapping[str, str] = {
    "vllm": "vllm",
    "sglang": "sglang",
    "llamacpp": "llama.cpp",
    "tensorrt_llm": "tensorrt-llm",
}
"""Engines by what their servers say who owns the models."""

_INFO = ("/server_info", "/get_server_info")  # SGLang's, under its new and its old name
_PROPS = "/props"  # llama.cpp's


class Server(Record):
    """``served`` is the name that requests ask for, ``loaded`` where the model came from, as far as the server says.

    ``settings`` are SGLang's, which says them.
    """

    engine: str
    version: str
    served: str
    loaded: str | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)


async def asked(connection: Connection, served: str | None) -> Server:
    """The server that is there, and the model of several that is meant.

    Raises
    ------
    InputError : it lists no models, or several of which none is named, or not that one.
    """
    listed = within(await connection.json("/v1/models"), "data")
    models = [each for each in listed if within(each, "id")] if isinstance(listed, list) else []
    if not models:
        raise InputError(f"{connection.at}: lists no models at /v1/models: not a server with OpenAI's API")
    model = _chosen(models, served, connection.at)
    engine = ENGINES.get(str(model.get("owned_by")), str(model.get("owned_by") or ""))
    settings = await _settings(connection) if engine == "sglang" else {}
    version = await _version(connection, engine, settings)
    loaded = text_in(settings.get("model_path")) or text_in(model.get("root"))
    return Server(engine, version, str(model["id"]), loaded, settings)


def _chosen(models: list[Mapping[str, Any]], served: str | None, at: str) -> Mapping[str, Any]:
    by_name = {str(each["id"]): each for each in models}
    if served is None and len(by_name) > 1:
        raise InputError(f"{at}: serves {len(by_name)} models; choose one by --served: {', '.join(by_name)}")
    if served is not None and served not in by_name:
        raise InputError(f"{at}: serves no '{served}'{nearest(served, by_name)} Allowed: {', '.join(by_name)}")
    return by_name[served] if served is not None else models[0]


async def _settings(connection: Connection) -> Mapping[str, Any]:
    for path in _INFO:
        settings = await connection.json(path)
        if isinstance(settings, Mapping):
            return settings
    return {}


async def _version(connection: Connection, engine: str, settings: Mapping[str, Any]) -> str:
    said = text_in(settings.get("version"))
    if said is None and engine == "llama.cpp":
        said = text_in(within(await connection.json(_PROPS), "build_info"))
    if said is None:
        said = text_in(within(await connection.json("/version"), "version"))
    return said or ""
