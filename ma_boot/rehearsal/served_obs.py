"""Serves the directory `--obs-root` as an OBS that a job on this machine can reach."""

from __future__ import annotations

import contextlib
import secrets
import string
import tempfile
from pathlib import Path
from typing import Dict, Iterator, List, Mapping, Sequence
from urllib.parse import quote

from ma_boot.errors import CannotCreate
from ma_boot.rehearsal.faults import Fault
from ma_boot.rehearsal.obs_server import DirectoryBuckets, KeyPair, ObsFault, ObsServer

_KINDS = {"obs-cut": "cut", "obs-corrupt": "flip", "obs-slow": "trickle"}  # the others have the same name
_HOST = "127.0.0.1"
_UNLIMITED = 1_000_000
_UNQUOTED = string.punctuation.replace("%", "")  # clients differ in which of these they percent-encode
_OVERRIDING = (
    "OBS_SECURITY_TOKEN",
    "OBS_CREDENTIALS_FILE",
)  # take precedence over our keys


class ServedObs:
    """A running server: how a job reaches it, and its pending faults."""

    def __init__(self, server: ObsServer, variables: Mapping[str, str], faults: Sequence[Fault]) -> None:
        self._variables = variables
        self._pending = [(fault, _obs_fault(fault)) for fault in faults]
        server.faults += [pending for _, pending in self._pending]

    def reached_from(self, outside: Mapping[str, str]) -> Dict[str, str]:
        """An environment that uses this OBS, without a proxy."""
        environ = {name: value for name, value in outside.items() if name not in _OVERRIDING}
        bypassed = [outside.get("no_proxy") or outside.get("NO_PROXY"), _HOST]
        return {**environ, **self._variables, "no_proxy": ",".join(filter(None, bypassed))}

    def newly_injected(self) -> List[Fault]:
        """The faults that have met their first request since the last call."""
        met = [pair for pair in self._pending if pair[1].times < (pair[0].times or _UNLIMITED)]
        self._pending = [pair for pair in self._pending if pair not in met]
        return [fault for fault, _ in met]


@contextlib.contextmanager
def served(root: Path, faults: Sequence[Fault]) -> Iterator[ServedObs]:
    """Serves `root` during the block, with keys of this run.

    Raises:
        CannotCreate: `root` is not a directory and cannot be created.
    """
    try:
        root.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise CannotCreate(f"--obs-root {root}: {error.strerror}") from error
    keys = KeyPair(secrets.token_hex(10), secrets.token_hex(20))
    with tempfile.TemporaryDirectory() as parts:
        server = ObsServer(Path(parts), [keys], buckets=DirectoryBuckets(root))
        with server:
            variables = {
                "OBS_ENDPOINT": server.url,
                "S3_ENDPOINT": server.url,
                "S3_USE_HTTPS": "0",
                "S3_VERIFY_SSL": "0",
                "OBS_ACCESS_KEY_ID": keys.access_key,
                "OBS_SECRET_ACCESS_KEY": keys.secret_key,
            }
            yield ServedObs(server, variables, faults)


def _obs_fault(fault: Fault) -> ObsFault:
    """The server's fault; without a method it concerns downloads."""
    kind = _KINDS.get(fault.kind, fault.kind.partition("-")[2])
    return ObsFault(kind, fault.method or "GET", quote(fault.key or "", _UNQUOTED), fault.times or _UNLIMITED)
