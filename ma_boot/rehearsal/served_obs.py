"""`--obs-server`: the directory of `--obs-root` as an OBS that a job of this machine can reach."""

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
from ma_boot.rehearsal.obs_server import KeyPair, ObsServer
from ma_boot.rehearsal.obs_server import ObsFault as Broken
from ma_boot.rehearsal.obs_server.storage.directory_buckets import DirectoryBuckets

_KINDS = {"obs-cut": "cut", "obs-corrupt": "flip", "obs-slow": "trickle"}  # the others have their own names
_HOST = "127.0.0.1"
_EVER = 1_000_000
_AS_IT_IS = string.punctuation.replace("%", "")  # beyond these, clients agree on what they send for a key
# Of the user's own OBS: they would win over our keys.
_OF_ANOTHER = ("OBS_SECURITY_TOKEN", "OBS_CREDENTIALS_FILE")


class ServedObs:
    """The server while it serves: how a job reaches it, and the faults that are not used up."""

    def __init__(self, server: ObsServer, variables: Mapping[str, str], faults: Sequence[Fault]) -> None:
        self._variables = variables
        self._open = [(fault, broken, broken.times) for fault in faults for broken in _broken(fault)]
        server.faults += [broken for _, broken, _ in self._open]

    def reached_from(self, outside: Mapping[str, str]) -> Dict[str, str]:
        """An environment whose OBS is this one, past every proxy, and no other."""
        environ = {name: value for name, value in outside.items() if name not in _OF_ANOTHER}
        spared = [outside.get("no_proxy") or outside.get("NO_PROXY"), _HOST]
        return {**environ, **self._variables, "no_proxy": ",".join(filter(None, spared))}

    def come(self) -> List[Fault]:
        """The faults that met their first request since the last call."""
        found = [entry for entry in self._open if entry[1].times < entry[2]]
        come = {str(fault): fault for fault, _, _ in found}
        self._open = [entry for entry in self._open if str(entry[0]) not in come]
        return list(come.values())


@contextlib.contextmanager
def served(root: Path, faults: Sequence[Fault]) -> Iterator[ServedObs]:
    """Serves `root` while the block runs, to whom has the keys, which are of this run only.

    Raises `CannotCreate` where `root` is no directory and cannot become one.
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


def _broken(fault: Fault) -> List[Broken]:
    """The server's own faults; without a method, of downloads."""
    kind = _KINDS.get(fault.kind, fault.kind.partition("-")[2])
    return [Broken(kind, fault.method or "GET", quote(fault.key or "", _AS_IT_IS), fault.times or _EVER)]
