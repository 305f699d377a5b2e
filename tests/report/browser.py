"""A headless Chromium, driven over the WebDriver protocol, which is JSON over HTTP."""

import base64
import contextlib
import json
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import requests

DRIVER, CHROMIUM = shutil.which("chromedriver"), shutil.which("chromium")
_FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
)


class Browser:
    """A browser with one window."""

    def __init__(self, address: str):
        self._client = requests.Session()
        self._client.trust_env = False  # a proxy knows nothing of this machine
        options = {"binary": CHROMIUM, "args": list(_FLAGS)}
        wanted = {
            "goog:chromeOptions": options,
            "goog:loggingPrefs": {"browser": "ALL", "performance": "ALL"},
        }
        answer = self._post(f"{address}/session", {"capabilities": {"alwaysMatch": wanted}})
        self._base = f"{address}/session/{answer['sessionId']}"

    def open(self, page: Path, width: int, height: int = 900, dark: bool = False) -> None:
        """Show a page in a window of this size."""
        screen = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        self.devtools("Emulation.setDeviceMetricsOverride", screen)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.devtools("Emulation.setEmulatedMedia", {"features": [scheme]})
        self._post(f"{self._base}/url", {"url": page.as_uri()})

    def script(self, code: str, *arguments: Any) -> Any:
        """What a script returns; a promise is waited for."""
        return self._post(f"{self._base}/execute/sync", {"script": code, "args": list(arguments)})

    def devtools(self, command: str, parameters: dict[str, Any]) -> Any:
        """A command of the DevTools protocol."""
        body = {"cmd": command, "params": parameters}
        return self._post(f"{self._base}/goog/cdp/execute", body)

    def complaints(self) -> list[str]:
        """What was written to the console since it was last asked."""
        return [entry["message"] for entry in self._log("browser")]

    def requests(self) -> list[str]:
        """The addresses that were asked for since it was last asked."""
        events = [json.loads(entry["message"])["message"] for entry in self._log("performance")]
        sent = [e["params"] for e in events if e["method"] == "Network.requestWillBeSent"]
        return [each["request"]["url"] for each in sent]

    def screenshot(self, path: Path) -> None:
        """The whole page as a PNG."""
        picture = self.devtools("Page.captureScreenshot", {"captureBeyondViewport": True})
        path.write_bytes(base64.b64decode(picture["data"]))

    def quit(self) -> None:
        """Close it."""
        self._client.delete(self._base, timeout=30)
        self._client.close()

    def _log(self, kind: str) -> list[dict[str, Any]]:
        return self._post(f"{self._base}/se/log", {"type": kind})

    def _post(self, url: str, body: dict[str, Any]) -> Any:
        answer = self._client.post(url, json=body, timeout=60).json()["value"]
        if isinstance(answer, dict) and "error" in answer:
            raise RuntimeError(answer["message"])
        return answer


@contextlib.contextmanager
def running() -> Iterator[Browser]:
    """A browser, and its end."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    assert DRIVER is not None
    driver = subprocess.Popen(
        [DRIVER, f"--port={port}"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        _wait_for(port)
        browser = Browser(f"http://127.0.0.1:{port}")
        try:
            yield browser
        finally:
            browser.quit()
    finally:
        driver.terminate()
        driver.wait(30)


def _wait_for(port: int) -> None:
    end = time.monotonic() + 30
    while time.monotonic() < end:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            return
        time.sleep(0.05)
    raise TimeoutError("chromedriver does not answer.")
