"""Debian's chromium, headless, driven by its DevTools protocol: a page as a person meets it."""

from __future__ import annotations

import base64
import json
import shutil
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any

import websocket

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
_FLAGS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--hide-scrollbars"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync", "--disable-dev-shm-usage"),
    *("--remote-debugging-port=0", "about:blank"),
)
_ANSWER_S = 60.0


class Browser:
    """One tab. ``problems`` collects what the console reports, ``requests`` every address that the page asks for."""

    def __init__(self, profile: Path) -> None:
        assert CHROMIUM is not None
        command = [CHROMIUM, f"--user-data-dir={profile}", *_FLAGS]
        self._process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.problems: list[str] = []
        self.requests: list[str] = []
        self._sent = 0
        self._socket = websocket.create_connection(self._tab_address(profile), suppress_origin=True, timeout=_ANSWER_S)
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.send(f"{domain}.enable")

    def __enter__(self) -> Browser:
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._socket.close()
        self._process.terminate()
        self._process.wait(20)

    def _tab_address(self, profile: Path) -> str:
        """The tab's socket; the browser writes its port into its profile once it listens."""
        port = profile / "DevToolsActivePort"
        direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        deadline = time.monotonic() + _ANSWER_S
        while time.monotonic() < deadline:
            if port.exists() and len(lines := port.read_text().splitlines()) == 2:
                with direct.open(f"http://127.0.0.1:{lines[0]}/json/list", timeout=10) as answer:
                    tabs = [tab for tab in json.load(answer) if tab["type"] == "page"]
                if tabs:
                    return str(tabs[0]["webSocketDebuggerUrl"])
            time.sleep(0.05)
        raise TimeoutError(f"{CHROMIUM} did not start (exit code {self._process.poll()})")

    def send(self, method: str, **parameters: Any) -> dict[str, Any]:
        """One command; returns its result."""
        self._sent += 1
        self._socket.send(json.dumps({"id": self._sent, "method": method, "params": parameters}))
        while True:
            message = json.loads(self._socket.recv())
            if message.get("id") == self._sent:
                if "error" in message:
                    raise RuntimeError(f"{method}: {message['error']}")
                return dict(message["result"])
            self._note(message)

    def _note(self, event: dict[str, Any]) -> None:
        what, about = event.get("method"), event.get("params", {})
        if what == "Runtime.exceptionThrown":
            self.problems.append(json.dumps(about["exceptionDetails"])[:500])
        elif what == "Runtime.consoleAPICalled" and about["type"] in ("error", "warning", "assert"):
            self.problems.append(" ".join(str(a.get("value", a.get("description"))) for a in about["args"]))
        elif what == "Log.entryAdded" and about["entry"]["level"] in ("error", "warning"):
            self.problems.append(about["entry"]["text"])
        elif what == "Network.requestWillBeSent":
            self.requests.append(about["request"]["url"])

    def evaluate(self, script: str) -> Any:
        """The value of a JavaScript expression; a promise is awaited."""
        answer = self.send("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in answer:
            raise RuntimeError(json.dumps(answer["exceptionDetails"])[:500])
        return answer["result"].get("value")

    def wait_until(self, script: str, seconds: float = 60.0) -> None:
        deadline = time.monotonic() + seconds
        while not self.evaluate(f"Boolean({script})"):
            if time.monotonic() > deadline:
                raise TimeoutError(f"never true: {script}; {self.problems}")
            time.sleep(0.02)

    def screen(self, width: int, height: int, dark: bool = False, scale: float = 1.0) -> None:
        """The window's size in CSS pixels, and whether the system prefers dark."""
        metrics = {"width": width, "height": height, "deviceScaleFactor": scale, "mobile": width < 500}
        self.send("Emulation.setDeviceMetricsOverride", **metrics)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.send("Emulation.setEmulatedMedia", features=[scheme])

    def open(self, page: Path | str) -> None:
        """Load a file or an address, and wait until every figure is drawn."""
        self.send("Page.navigate", url=page if isinstance(page, str) else page.absolute().as_uri())
        self.wait_until("document.documentElement?.dataset.drawn === 'all'")

    def mouse(self, kind: str, x: float, y: float) -> None:
        """``mouseMoved``, ``mousePressed`` or ``mouseReleased``, as if by hand."""
        button = {} if kind == "mouseMoved" else {"button": "left", "clickCount": 1}
        self.send("Input.dispatchMouseEvent", type=kind, x=x, y=y, **button)

    def click(self, x: float, y: float) -> None:
        for kind in ("mouseMoved", "mousePressed", "mouseReleased"):
            self.mouse(kind, x, y)

    def screenshot(self, path: Path, whole_page: bool = False) -> None:
        answer = self.send("Page.captureScreenshot", format="png", captureBeyondViewport=whole_page)
        path.write_bytes(base64.b64decode(answer["data"]))

    def print_to_pdf(self, path: Path) -> None:
        answer = self.send("Page.printToPDF", printBackground=True, paperWidth=8.27, paperHeight=11.69)
        path.write_bytes(base64.b64decode(answer["data"]))


@contextmanager
def loaded(browser: Browser, page: Path | str, width: int, height: int) -> Iterator[None]:
    """A page of a file, loaded anew; afterwards nothing may have gone wrong or been asked of a network."""
    browser.send("Page.navigate", url="about:blank")
    browser.problems.clear()
    browser.requests.clear()
    browser.screen(width, height)
    browser.open(page)
    yield
    assert browser.problems == []
    assert {address.split(":")[0] for address in browser.requests} <= {"file", "data", "blob", "about"}
