"""One node of Ceph with its S3 gateway in a temporary directory: an independent server for tests."""

from __future__ import annotations

import contextlib
import shutil
import socket
import subprocess
import time
import urllib.error
import urllib.request
import uuid
from dataclasses import dataclass, field
from pathlib import Path
from typing import Callable

PROGRAMS = ("ceph", "ceph-authtool", "ceph-mon", "ceph-osd", "monmaptool", "radosgw", "radosgw-admin")
ACCESS_KEY, SECRET_KEY = "AKRADOSGW", "SKRADOSGW"
NEW_ACCESS_KEY, NEW_SECRET_KEY = "AKRENEWED", "SKRENEWED"
DOMAIN = "localhost"
DEADLINE_SECONDS = 90.0
CONFIGURATION = """
[global]
fsid = {fsid}
mon host = v1:127.0.0.1:{mon_port}
mon initial members = a
auth cluster required = none
auth service required = none
auth client required = none
auth supported = none
osd pool default size = 1
osd pool default min size = 1
osd pool default pg num = 8
osd pool default pgp num = 8
osd crush chooseleaf type = 0
mon allow pool size one = true
mon warn on pool no redundancy = false
mon pg warn min per osd = 0
mon max pg per osd = 2000
run dir = {root}/run
admin socket = {root}/run/$name.asok
pid file = {root}/run/$name.pid
log file = {root}/log/$name.log
ms bind ipv4 = true
ms bind ipv6 = false
public network = 127.0.0.0/8
cluster network = 127.0.0.0/8
mon data = {root}/mon
mon data avail crit = 0
keyring = {root}/keyring
[osd]
osd data = {root}/osd$id
osd objectstore = memstore
memstore device bytes = 4294967296
osd class update on start = false
osd crush update on start = false
osd class load list = *
osd class default list = *
[client.rgw]
rgw frontends = beast endpoint=127.0.0.1:{port} tcp_nodelay=1
rgw enable usage log = false
rgw enable ops log = false
rgw thread pool size = 64
rgw s3 auth use sts = false
rgw dns name = {domain}
rgw gc obj min wait = 60
rgw gc processor period = 30
"""


def missing() -> list[str]:
    """The programs that are not installed."""
    return [name for name in PROGRAMS if shutil.which(name) is None]


@dataclass
class Radosgw:
    """A monitor, an in-memory store and the gateway; they end with the context or with this process.

    Without `tcp_nodelay` each small answer on a connection that stays takes 40 ms. The store takes the id that
    the monitor was told, or it never comes up; it does not tell the monitor of its place itself, which it may
    do before it knows which cluster it is in, and end; the gateway starts when the store is up. What was
    overwritten is freed after a minute, not after two hours, as it is in memory.
    """

    root: Path
    port: int = 0
    _daemons: list[subprocess.Popen[bytes]] = field(default_factory=list)

    @property
    def url(self) -> str:
        """URL of the server, in path style."""
        return f"http://127.0.0.1:{self.port}"

    def __enter__(self) -> Radosgw:
        try:
            self._start()
        except BaseException:
            self._stop()
            raise
        return self

    def __exit__(self, *exc: object) -> None:
        self._stop()

    def _start(self) -> None:
        for name in ("mon", "osd0", "run", "log"):
            (self.root / name).mkdir(parents=True)
        mon_port, self.port = _free_port(), _free_port()
        fsid, osd = str(uuid.uuid4()), str(uuid.uuid4())
        (self.root / "ceph.conf").write_text(
            CONFIGURATION.format(fsid=fsid, root=self.root, mon_port=mon_port, port=self.port, domain=DOMAIN)
        )
        monmap, keyring, monitor = f"{self.root}/monmap", f"{self.root}/keyring", f"v1:127.0.0.1:{mon_port}"
        self._run("monmaptool", "--create", "--clobber", "--fsid", fsid, "--addv", "a", monitor, monmap)
        self._run("ceph-authtool", "-C", keyring, "-g", "-n", "mon.", "--cap", "mon", "allow *")
        self._run("ceph-mon", *self._conf, "-i", "a", "--mkfs", "--monmap", monmap, "--keyring", keyring)
        self._daemon("ceph-mon", "-i", "a", "--public-addr", monitor)
        self._until(lambda: self._answer("osd", "new", osd) is not None, "the monitor takes no store")
        self._run("ceph-osd", *self._conf, "-i", "0", "--mkfs", "--osd-uuid", osd, "--no-mon-config")
        place = ("osd", "crush", "add", "osd.0", "1", "root=default")
        self._until(lambda: self._answer(*place) is not None, "the monitor does not place the store")
        self._daemon("ceph-osd", "-i", "0")
        self._until(lambda: "1 up" in (self._answer("osd", "stat") or ""), "the store is not up")
        self._daemon("radosgw", "-n", "client.rgw")
        user = (
            "--uid=tests",
            "--display-name=tests",
            f"--access-key={ACCESS_KEY}",
            f"--secret-key={SECRET_KEY}",
        )
        self._run("radosgw-admin", *self._conf, "user", "create", *user)
        self.add_keys(NEW_ACCESS_KEY, NEW_SECRET_KEY)
        self._until(self._answers, "the gateway does not answer")

    def add_keys(self, access_key: str, secret_key: str) -> None:
        """A second pair of keys for the user of the tests."""
        keys = (f"--access-key={access_key}", f"--secret-key={secret_key}")
        self._run("radosgw-admin", *self._conf, "key", "create", "--uid=tests", "--key-type=s3", *keys)

    @property
    def _conf(self) -> list[str]:
        return ["-c", f"{self.root}/ceph.conf"]

    def _run(self, *command: str) -> str:
        done = subprocess.run(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False, timeout=60
        )
        if done.returncode:
            raise RuntimeError(f"{' '.join(command)} ended with {done.returncode}:\n{done.stdout}")
        return done.stdout

    def _answer(self, *command: str) -> str | None:
        """Returns the status of the monitor; None while it is starting, or too busy to know its commands."""
        try:
            return self._run("ceph", *self._conf, *command)
        except RuntimeError:
            return None

    def _daemon(self, name: str, *arguments: str) -> None:
        dies_with_us = ("setpriv", "--pdeathsig", "KILL")
        command = [*dies_with_us, name, *self._conf, *arguments, "-f"]
        with (self.root / "log" / f"{name}.out").open("wb") as log:
            self._daemons.append(subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT))

    def _until(self, condition: Callable[[], bool], otherwise: str) -> None:
        until = time.monotonic() + DEADLINE_SECONDS
        while not condition():
            if time.monotonic() > until or any(daemon.poll() is not None for daemon in self._daemons):
                logs = "".join(path.read_text()[-2000:] for path in (self.root / "log").glob("*.out"))
                raise RuntimeError(f"{otherwise}; its logs are in {self.root}/log\n{logs}")
            time.sleep(0.05)

    def _answers(self) -> bool:
        try:
            with urllib.request.urlopen(self.url, timeout=5):
                return True
        except urllib.error.HTTPError as error:
            error.close()
            return error.code < 500
        except OSError:
            return False

    def _stop(self) -> None:
        for daemon in reversed(self._daemons):
            daemon.kill()
            with contextlib.suppress(subprocess.TimeoutExpired):
                daemon.wait(timeout=10)
        self._daemons.clear()


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as free:
        return int(free.getsockname()[1])
