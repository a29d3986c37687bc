"""One process for each device: all serve the same requests, and end in bounded time even if one dies or hangs."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import timedelta
from importlib import import_module
from multiprocessing import forkserver, resource_tracker
from multiprocessing.connection import Connection, wait
from multiprocessing.context import ForkServerContext, SpawnContext
from multiprocessing.process import BaseProcess
from pathlib import Path
from types import TracebackType
from typing import Any

import torch
import torch.distributed as dist

from calibration.machine.devices import (
    COLLECTIVE_S,
    LOOPBACK,
    backend_of,
    belong_to_parent,
    check_devices,
    messages_lie_on,
    occupy,
)
from ssdsim.base.errors import InputError

Handler = Callable[[Mapping[str, Any]], Any]
_START_S = 60.0  # importing torch on a busy core takes its time
_GRACE_S = 2.0


class RankError(RuntimeError):
    """A rank died, hung or raised; the message names it."""


class Ranks:
    """Ranks 0..n-1 on ``devices``, each serving requests with the handler that ``serve`` makes.

    ``serve`` is ``"module:function"``; the function is called on every rank with ``(rank, device, options)`` after the
    process group is up, and returns the handler. Use as a context manager.
    """

    def __init__(
        self, devices: Sequence[str], serve: str, options: Mapping[str, Any], collective_s: float = COLLECTIVE_S
    ) -> None:
        check_devices(devices)
        self.devices = list(devices)
        self.backend = backend_of(devices)
        self._life = (serve, dict(options), collective_s)
        self._folder = tempfile.TemporaryDirectory(prefix="ssdsim-ranks-")
        self._pipes: list[Connection] = []
        self._processes: list[BaseProcess] = []

    def __enter__(self) -> Ranks:
        try:
            self._start()
            self._collect(_START_S)
        except BaseException:  # Ctrl-C too
            self.close()
            raise
        return self

    def _start(self) -> None:
        context = _start_context()
        store = str(Path(self._folder.name) / "store")
        for rank in range(len(self.devices)):
            with _ctrl_c_later():
                ours, theirs = context.Pipe()
                arguments = (rank, self.devices, self.backend, store, *self._life, theirs)
                process = context.Process(target=_rank, args=arguments, daemon=True, name=f"ssdsim rank {rank}")
                self._pipes.append(ours)
                self._processes.append(process)
                process.start()
                theirs.close()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    @property
    def pids(self) -> list[int]:
        return [int(process.pid or 0) for process in self._processes]

    def ask(self, request: Mapping[str, Any], timeout_s: float = 30.0) -> list[Any]:
        """Every rank's answer to ``request``, in the order of ranks.

        Raises
        ------
        RankError : a rank died, raised, or did not answer within ``timeout_s``.
        """
        for rank, pipe in enumerate(self._pipes):
            try:
                pipe.send(dict(request))
            except OSError:
                raise RankError(self._obituary(rank)) from None
        return self._collect(timeout_s)

    def _collect(self, timeout_s: float) -> list[Any]:
        """One message of every rank. If a rank lost its connection, wait a moment for the rank that caused it."""
        answers: dict[int, Any] = {}
        lost: dict[int, str] = {}
        start = time.monotonic()
        deadline = start + timeout_s
        while waiting := [rank for rank in range(len(self._pipes)) if rank not in answers and rank not in lost]:
            ready = wait([self._pipes[rank] for rank in waiting], timeout=max(0.0, deadline - time.monotonic()))
            if not ready:
                names = ", ".join(f"rank {rank} ({self.devices[rank]})" for rank in waiting)
                raise RankError(f"{names} did not answer within {time.monotonic() - start:.0f} s")
            for rank in waiting:
                if self._pipes[rank] in ready:
                    kind, value = self._receive(rank)
                    (lost if kind == "lost" else answers)[rank] = value
            if lost:
                deadline = min(deadline, time.monotonic() + _GRACE_S)
        for rank, what in lost.items():
            raise RankError(f"rank {rank} ({self.devices[rank]}): {what}")
        return [answers[rank] for rank in range(len(self._pipes))]

    def _receive(self, rank: int) -> tuple[str, Any]:
        try:
            kind, value = self._pipes[rank].recv()
        except (EOFError, OSError):
            raise RankError(self._obituary(rank)) from None
        if kind == "error":
            raise RankError(f"rank {rank} ({self.devices[rank]}): {value}")
        return kind, value

    def _obituary(self, rank: int) -> str:
        process = self._processes[rank]
        process.join(_GRACE_S)
        code = process.exitcode
        how = f"killed by {signal.Signals(-code).name}" if code is not None and code < 0 else f"exited with {code}"
        return f"rank {rank} ({self.devices[rank]}) died: {how}"

    def close(self) -> None:
        """End every rank: politely, then by force. One that a driver holds even then is left to the kernel."""
        for pipe in self._pipes:
            pipe.close()
        started = [process for process in self._processes if process.pid is not None]
        for process in started:
            process.join(_GRACE_S / 4)
        for process in started:
            if process.is_alive():
                process.kill()
            process.join(_GRACE_S)
        self._folder.cleanup()


def _start_context() -> ForkServerContext | SpawnContext:
    """The context that starts ranks. On Linux a server that has imported torch, which takes seconds, forks them.

    The server lives as long as this process. It has touched no GPU, which a fork would not survive, and it ignores the
    terminal's Ctrl-C.
    """
    if sys.platform != "linux":
        return multiprocessing.get_context("spawn")
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([__name__])
    resource_tracker.ensure_running()  # first: starting it lets Ctrl-C through again
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})  # inherited
    try:
        forkserver.ensure_running()
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
    return context


@contextmanager
def _ctrl_c_later() -> Iterator[None]:
    """Delay Ctrl-C to the end of the block, in which pipes and a process exist that nobody would close."""
    handler = signal.getsignal(signal.SIGINT)
    if not callable(handler) or threading.current_thread() is not threading.main_thread():
        yield
        return
    came: list[int] = []
    signal.signal(signal.SIGINT, lambda number, frame: came.append(number))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, handler)
        if came:
            signal.raise_signal(signal.SIGINT)


def _let_parent_end() -> None:
    """Close this rank's copy of the pipe that keeps the fork server alive.

    The fork server ends when its parent's end of the pipe closes, and its ranks end with it, however busy. But
    multiprocessing hands each rank a copy of that end.
    """
    kept: int | None = getattr(forkserver._forkserver, "_forkserver_alive_fd", None)  # its types do not know it
    if kept is not None:
        os.close(kept)
        forkserver._forkserver._forkserver_alive_fd = None  # type: ignore[attr-defined]


def _rank(
    rank: int,
    devices: list[str],
    backend: str,
    store: str,
    serve: str,
    options: dict[str, Any],
    collective_s: float,
    pipe: Connection,
) -> None:
    """A rank's life: set up, then answer requests until the pipe closes."""
    _let_parent_end()
    belong_to_parent()
    try:
        device = occupy(devices[rank])
        os.environ.setdefault("GLOO_SOCKET_IFNAME", LOOPBACK)  # ranks share this machine
        # in a round there is one message at a time, and collectives have a group of their own
        os.environ.setdefault("TORCH_NCCL_SHOW_EAGER_INIT_P2P_SERIALIZATION_WARNING", "false")
        # NCCL's watchdog would abort the ranks that wait for a hung one, and they would be blamed; the parent watches
        os.environ.setdefault("TORCH_NCCL_ASYNC_ERROR_HANDLING", "0")
        dist.init_process_group(
            backend,
            init_method=f"file://{store}",
            rank=rank,
            world_size=len(devices),
            timeout=timedelta(seconds=collective_s),
            # else NCCL guesses the device of a barrier; it connects at once then, over one communicator for all pairs
            device_id=device if backend == "nccl" else None,
        )
        connect_pairs(rank, len(devices), messages_lie_on(device))
        module, function = serve.split(":")
        handler: Handler = getattr(import_module(module), function)(rank, device, options)
        pipe.send(("ready", None))
        while True:
            pipe.send(("answer", handler(pipe.recv())))
    except (EOFError, BrokenPipeError):
        pass  # the parent is done
    except Exception as error:  # whatever a rank raises is the parent's to report
        with suppress(OSError):  # the parent may have heard of another rank's error and be gone
            pipe.send(_described(error))
    os._exit(0)  # not through torch's destructors, which wait for other ranks


def _described(error: Exception) -> tuple[str, str]:
    """The kind of an error and its first line. A communication error is ``lost``: another rank may be its cause."""
    if isinstance(error, InputError):
        return "error", str(error)
    text = f"{type(error).__name__}: {next(iter(str(error).splitlines()), '')}"
    lost = isinstance(error, RuntimeError) and any(name in text.lower() for name in ("gloo", "nccl", "distbackend"))
    return "lost" if lost else "error", text


def connect_pairs(rank: int, ranks: int, device: torch.device, group: dist.ProcessGroup | None = None) -> None:
    """Send a byte both ways between every pair: NCCL connects a pair late, and the first message would time that."""
    byte = torch.zeros(1, device=device)
    for low in range(ranks):
        for high in range(low + 1, ranks):
            for source, target in ((low, high), (high, low)):
                if rank == source:
                    dist.send(byte, target, group=group)
                elif rank == target:
                    dist.recv(byte, source, group=group)
