"""A TLS end before a store: nginx, with a certificate of a CA that exists only here.

As OBS has it: TLS 1.2 and 1.3, connections that are kept, sessions that are resumed, a certificate with RSA.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

TICKS = os.sysconf("SC_CLK_TCK")
CONFIG = """
daemon off; pid {here}/nginx.pid; error_log {here}/error.log; worker_processes auto;
events {{ worker_connections 4096; }}
http {{
  access_log off; client_max_body_size 0;
  client_body_temp_path {here}/body; proxy_temp_path {here}/proxy; fastcgi_temp_path {here}/fastcgi;
  uwsgi_temp_path {here}/uwsgi; scgi_temp_path {here}/scgi;
  upstream store {{ server {store}; keepalive 256; keepalive_requests 1000000; }}
  server {{
    listen 127.0.0.1:{port} ssl backlog=1024;
    ssl_certificate {here}/server.pem; ssl_certificate_key {here}/server.key;
    ssl_protocols TLSv1.2 TLSv1.3; ssl_session_cache shared:sessions:10m; ssl_session_tickets on;
    keepalive_requests 1000000; tcp_nodelay on;
    location / {{
      proxy_pass http://store; proxy_http_version 1.1;
      proxy_set_header Connection ""; proxy_set_header Host $http_host;
      proxy_request_buffering off; proxy_buffers 16 64k; proxy_max_temp_file_size 0;
    }}
  }}
}}
"""
EXTENSIONS = "subjectAltName=IP:127.0.0.1,DNS:localhost"
# What tells each client which CAs it may trust: Go, OpenSSL and rustls, the AWS SDKs.
VARIABLES = ("SSL_CERT_FILE", "AWS_CA_BUNDLE")


class TlsEnd(NamedTuple):
    """An nginx that is listening: its URL, the CAs that a client must trust, and its main process."""

    url: str
    bundle: Path
    pid: int

    def cpu(self) -> float:
        """The seconds of CPU that all its processes have taken."""
        workers = Path(f"/proc/{self.pid}/task/{self.pid}/children").read_text().split()
        return sum(map(_cpu, (self.pid, *map(int, workers))))

    def trusted(self) -> dict[str, str]:
        """The variables of a client."""
        return dict.fromkeys(VARIABLES, str(self.bundle))


@contextmanager
def tls_before(store: str, here: Path) -> Iterator[TlsEnd]:
    """Serves the store at this HOST:PORT with TLS; `here` is an empty directory for its files."""
    _make_certificate(here)
    port = _free_port()
    here.joinpath("nginx.conf").write_text(CONFIG.format(here=here, store=store, port=port))
    nginx = shutil.which("nginx") or "/usr/sbin/nginx"
    argv = [nginx, "-e", str(here / "error.log"), "-c", str(here / "nginx.conf")]
    with subprocess.Popen(argv) as process:
        try:
            _wait_for(port, process)
            yield TlsEnd(f"https://127.0.0.1:{port}", here / "bundle.pem", process.pid)
        finally:
            process.terminate()


def _make_certificate(here: Path) -> None:
    """A CA, a certificate that it signed, and a bundle as users have: the public CAs, and this one."""
    import certifi

    new = ["req", "-newkey", "rsa:2048", "-nodes"]
    ca = ["-keyout", "ca.key", "-out", "ca.pem", "-subj", "/CN=benchmark CA", "-days", "2"]
    _openssl(here, [*new, "-x509", *ca])
    _openssl(here, [*new, "-keyout", "server.key", "-out", "server.csr", "-subj", "/CN=localhost"])
    here.joinpath("extensions").write_text(EXTENSIONS)
    signing = ["-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial", "-extfile", "extensions"]
    _openssl(here, ["x509", "-req", "-in", "server.csr", *signing, "-days", "2", "-out", "server.pem"])
    public = Path(certifi.where()).read_text(encoding="ascii", errors="ignore")
    here.joinpath("bundle.pem").write_text(public + here.joinpath("ca.pem").read_text())


def _openssl(here: Path, arguments: list[str]) -> None:
    subprocess.run(["openssl", *arguments], cwd=here, check=True, stderr=subprocess.DEVNULL)


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


def _wait_for(port: int, process: subprocess.Popen[bytes]) -> None:
    while process.poll() is None:
        with socket.socket() as client:
            client.settimeout(0.1)
            if not client.connect_ex(("127.0.0.1", port)):
                return
    raise RuntimeError(f"nginx ended with {process.returncode}")


def _cpu(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS
