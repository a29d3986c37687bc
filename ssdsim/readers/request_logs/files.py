"""A log of requests in a file, told by what is in it."""

from __future__ import annotations

from pathlib import Path

from ssdsim.base.documents import parse_records, read_text
from ssdsim.readers.request_logs.log import RequestLog
from ssdsim.readers.request_logs.records import read_records
from ssdsim.readers.request_logs.tables import read_table


def read_log(path: str | Path, tokenizer: Path | None = None) -> RequestLog:
    """CSV by its header (Azure, BurstGPT, Vidur, plain), JSON by its keys (Mooncake, vLLM, SGLang, AIPerf, ShareGPT).

    Raises
    ------
    InputError : no such file, one of no known kind, or something in it is not what it must be.
    """
    path = Path(path)
    text = read_text(path, "log of requests")
    if not text.lstrip().startswith(("{", "[")):
        return read_table(path)
    return read_records(parse_records(text, path), str(path), tokenizer)
