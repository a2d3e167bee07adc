"""Transfers between a directory and `bucket` for tests, and the files and processes that they leave."""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Any, Callable

from path_mapping.mapping.routes import ObsUrl, Route
from path_mapping.planning.record import is_record
from path_mapping.stores.access import Access, Credentials
from path_mapping.stores.directory_store import StorePath
from path_mapping.stores.obs_store import ObsStore
from path_mapping.stores.store import Store
from path_mapping.stores.units import UnitRunner
from path_mapping.transfer.scheduler import Progress
from path_mapping.transfer.transfer import Transferred, download, ignored, upload
from path_mapping.workers.retry import RetriedStore, RetryPolicy, Troubled, ignore_retry
from tests.functional.node import alive

if TYPE_CHECKING:
    import pytest

KEYS = Credentials("AKPLANTED", "SKPLANTED")


def obs_store(url: str, **settings: Any) -> ObsStore:
    """Returns OBS at a test server, with credentials that it accepts; `settings` are those of `Access`."""
    return ObsStore(Access(url, KEYS, **settings))


class PartialStore(Store):
    """A store with the operations that a test gives it; any other one raises `NotImplementedError`."""

    def runner(self, closing: threading.Event) -> UnitRunner:
        return StorePath(self)

    def _not_given(self, *arguments: Any, **named: Any) -> Any:
        raise NotImplementedError

    list = level = find = read = read_from = write = write_bytes = copy = delete = _not_given


def route(local: str, key: str, bucket: str = "bucket", **options: Any) -> Route:
    return Route(local, ObsUrl(bucket, key), **options)


def fetch(
    store: Store,
    base: Path,
    *routes: Route,
    cancel: threading.Event | None = None,
    progress: Callable[[Progress], None] = ignored,
    patience: RetryPolicy = RetryPolicy(),  # noqa: B008 -- a frozen value
    **options: Any,
) -> Transferred:
    """Downloads these routes, or `in/` to `in`."""
    chosen = routes or (route("in", "in/"),)
    return download(chosen, base, RetriedStore(store, cancel, patience), progress, **options)


def send(
    store: Store,
    base: Path,
    *routes: Route,
    cancel: threading.Event | None = None,
    progress: Callable[[Progress], None] = ignored,
    patience: RetryPolicy = RetryPolicy(),  # noqa: B008 -- a frozen value
    troubled: Troubled = ignore_retry,
    **options: Any,
) -> Transferred:
    """Uploads these routes, or `out` to `out/`."""
    chosen = routes or (route("out", "out/"),)
    return upload(chosen, base, RetriedStore(store, cancel, patience, troubled), progress, **options)


def write(base: Path, files: dict[str, bytes]) -> Path:
    """Writes files below a directory; returns the directory."""
    for name, content in files.items():
        (base / name).parent.mkdir(parents=True, exist_ok=True)
        (base / name).write_bytes(content)
    return base


def tree(base: Path) -> dict[str, bytes]:
    """Returns the files below a directory, also unfinished ones, without path_mapping's own records."""
    files = (path for path in base.rglob("*") if path.is_file() and not is_record(path.name))
    return {str(path.relative_to(base)): path.read_bytes() for path in files}


def content_of(store: Store, key: str) -> bytes:
    return b"".join(store.read("bucket", key))


class SilentHandler(BaseHTTPRequestHandler):
    """A handler without a log."""

    def log_message(self, format: str, *args: object) -> None: ...


def tls_context(bundle: Path, name: str = "localhost") -> ssl.SSLContext:
    """Returns the context of a server with a certificate for this name; writes its authority's to `bundle`."""
    import trustme  # slow to import; programs of tests import this module

    authority, context = trustme.CA(), ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.cert_pem.write_to_path(str(bundle))
    authority.issue_cert(name).configure_cert(context)
    return context


@contextmanager
def serving(handler: type[BaseHTTPRequestHandler]) -> Iterator[str]:
    """Runs a server with this handler within the block; yields its URL."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


def resolve_example_hosts_locally(monkeypatch: pytest.MonkeyPatch) -> None:
    """Resolves hosts below example.com to this machine, so that buckets may be part of the host name."""
    real = socket.getaddrinfo

    def resolve(host: bytes | str, *args: object, **settings: object) -> object:
        name = host.decode() if isinstance(host, bytes) else host
        here = "127.0.0.1" if name.endswith(".example.com") else host
        return real(here, *args, **settings)  # type: ignore[arg-type]

    monkeypatch.setattr(socket, "getaddrinfo", resolve)


def workers() -> list[int]:
    """Returns the worker processes of this process, started by any of its threads."""
    pids: list[int] = []
    for task in Path("/proc/self/task").iterdir():
        pids += [int(child) for child in (task / "children").read_text().split() if is_worker(int(child))]
    return pids


def is_worker(pid: int) -> bool:
    """Returns True for a running worker process of a transfer."""
    try:
        line = Path(f"/proc/{pid}/cmdline").read_text()
    except OSError:
        return False
    return "path_mapping.workers.worker_process" in line and alive(pid)
