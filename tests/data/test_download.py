import hashlib
import threading
from contextlib import contextmanager
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from backcast import data
from backcast.data import DataError, public
from backcast.data.download import fetch

CONTENT = b"handwritten" * 1000
CHECKSUM = {"file.gz": f"md5:{hashlib.md5(CONTENT).hexdigest()}"}


@contextmanager
def served(content, promised=None, status=200):
    """A server of one file, which may promise more bytes than it sends."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(status)
            self.send_header("Content-Length", str(promised or len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *args):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@pytest.fixture(autouse=True)
def _no_proxy(monkeypatch):
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")


def test_a_file_is_fetched(tmp_path):
    with served(CONTENT) as base:
        fetch(base, CHECKSUM, tmp_path / "new", "Digits")
    assert (tmp_path / "new" / "file.gz").read_bytes() == CONTENT


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        ({"content": CONTENT[:5000], "promised": len(CONTENT)}, "broke off"),
        ({"content": b"<html>login</html>"}, "not the published file"),
        ({"content": b"", "status": 404}, "404"),
    ],
)
def test_what_came_wrong_leaves_nothing_behind(tmp_path, answer, message):
    with served(**answer) as base, pytest.raises(DataError, match=message) as caught:
        fetch(base, CHECKSUM, tmp_path, "Digits")
    assert f"put these files of Digits into {tmp_path}: file.gz" in str(caught.value)
    assert list(tmp_path.iterdir()) == []


def test_without_a_network_the_files_are_named(tmp_path, monkeypatch):
    with served(b"") as base:
        pass  # nobody listens there any more
    monkeypatch.setattr(public, "_FASHION", replace(public._FASHION, address=base))
    with pytest.raises(DataError) as caught:
        data.fashion_mnist(tmp_path)
    assert "there is no connection" in str(caught.value)
    assert str(tmp_path / "fashion-mnist") in str(caught.value)
    assert "t10k-labels-idx1-ubyte.gz" in str(caught.value)


def test_progress_is_drawn_for_a_terminal(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    with served(CONTENT) as base:
        fetch(base, CHECKSUM, tmp_path, "Digits")
    assert "Digits: file.gz" in capsys.readouterr().err
