"""A soak: random faults, kills, renewals, two writers and rotations; every file is what the model says, or named.

`make soak SECONDS=1800 SEED=7` repeats the draws of a run; the moments of kills and the order of requests differ.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
import uuid
from collections import Counter
from pathlib import Path
from typing import Any, Callable, Dict, List, Optional, Set

import pytest

from tests.conformance import radosgw as ceph
from tests.conformance.clients import Account, Sdk
from tests.conformance.conftest import RADOSGW
from tests.conformance.fault_proxy import Fault, FaultProxy, Seen, operation
from tests.transfers import tree

ROOT = Path(__file__).parents[3]
MIB = 1 << 20
KEPT = 3  # checkpoints of a writer
TRIES = 4
PROGRAM = """
import json, sys, threading
from pathlib import Path
from path_mapping import transfer
from path_mapping.errors import PathMappingError, TransferFailed
from path_mapping.mapping import ObsUrl, Route
from path_mapping.stores import Access, Credentials
from path_mapping.stores.obs_store import ObsStore
way, url, base, keys, bucket = sys.argv[1:6]
read = lambda: Credentials(*json.loads(Path(keys).read_text()))
store = ObsStore(Access(url, read(), timeout=5, multipart_from=6 << 20, part=5 << 20), read, patience=20)
routes = [Route(local, ObsUrl(bucket, key)) for local, key in zip(sys.argv[6::2], sys.argv[7::2])]
try:
    getattr(transfer, way)(routes, Path(base), store, cancel=threading.Event(), progress=lambda now: None)
    said = []
except TransferFailed as error:
    said = [str(failure) for failure in error.failures]
except PathMappingError as error:
    said = [f"* {error}"]
print(json.dumps(said))
"""


class Soak:
    """Two writers and a reader, the service behind a proxy, and what every object may contain."""

    def __init__(self, account: Account, client: Sdk, base: Path, chance: random.Random) -> None:
        self.account, self.client, self.base, self.chance = account, client, base, chance
        self.contents: Dict[str, Set[bytes]] = {}  # by key, all that were ever written
        self.seen: Counter[str] = Counter()
        self.keys = [
            (account.access_key, account.secret_key),
            (ceph.NEW_ACCESS_KEY, ceph.NEW_SECRET_KEY),
        ]
        self.number = 0
        self._write_keys()

    def _write_keys(self) -> None:
        new = self.base / "keys.new"
        new.write_text(json.dumps(self.keys[0]))
        new.replace(self.base / "keys.json")

    def rotate(self) -> None:
        """Each writer writes a checkpoint and its `latest`, and deletes its oldest one; both write one key."""
        self.number += 1
        for writer in "01":
            content = self.chance.randbytes(self.chance.choice([0, 1000, 300_000, 7 * MIB, 11 * MIB + 3]))
            self._write(f"w{writer}", f"out{writer}/", f"ckpt-{self.number:05}", content)
            self._write(f"w{writer}", f"out{writer}/", "latest", content)
            self._write(f"s{writer}", "shared/", "model", self.chance.randbytes(6 * MIB + int(writer)))
            self._write(f"s{writer}", "shared/", "note", self.chance.randbytes(500))
            kept = sorted((self.base / f"w{writer}").glob("ckpt-*"))
            for old in kept[:-KEPT]:
                old.unlink()

    def _write(self, directory: str, prefix: str, name: str, content: bytes) -> None:
        path = self.base / directory / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(content)
        self.contents.setdefault(prefix + name, set()).add(content)

    def faults(self) -> List[Fault]:
        chance = self.chance
        moves = ("GetObject", "PutObject", "UploadPart")
        every = (*moves, "ListObjects", "CreateMultipartUpload", "CompleteMultipartUpload", "HeadObject")
        kinds: List[Callable[[], Dict[str, Any]]] = [
            lambda: {"when": self._some(*every), "status": chance.choice([500, 503, 429, 408])},
            lambda: {"when": self._some(*every), "status": 500, "forwarded": True},
            lambda: {"when": self._some(*every), "reset": True, "forwarded": chance.random() < 0.5},
            lambda: {"when": self._some("GetObject"), "cut_answer": chance.randrange(1, 400)},
            lambda: {"when": self._some("GetObject"), "flip_answer": chance.randrange(400)},
            lambda: {"when": self._some("PutObject", "UploadPart"), "flip_request": chance.randrange(400)},
            lambda: {"when": self._some(*moves), "stall": chance.random() < 0.1, "status": 503},
        ]
        return [Fault(**chance.choice(kinds)()) for _ in range(chance.randrange(5))]

    def _some(self, *names: str) -> Callable[[Seen], bool]:
        wanted, left = operation(*names), self.chance.randrange(12)

        def picks(seen: Seen) -> bool:
            nonlocal left
            left -= wanted(seen)
            return left < 0 and wanted(seen)

        return picks

    def begin(self, url: str, way: str, *routes: str) -> subprocess.Popen[str]:
        argv = [sys.executable, "-c", PROGRAM, way, url, str(self.base), str(self.base / "keys.json")]
        argv += [self.client.bucket, *routes]
        return subprocess.Popen(
            argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=ROOT, start_new_session=True
        )

    def run(self, *commands: List[str]) -> List[List[str]]:
        """Runs these at the same time, with faults, kills and renewals, until all have ended by themselves."""
        said: List[Optional[List[str]]] = [None] * len(commands)
        for attempt in range(TRIES):
            with FaultProxy(self.account.url) as proxy:
                proxy.faults += self.faults()
                running = {
                    index: self.begin(proxy.url, *command)
                    for index, command in enumerate(commands)
                    if said[index] is None
                }
                if self.chance.random() < 0.4:
                    self._renew(proxy)
                if attempt < TRIES - 1 and self.chance.random() < 0.5:
                    self._kill(list(running.values()))
                for index, process in running.items():
                    output, errors = process.communicate(timeout=300)
                    assert process.returncode in (0, -signal.SIGKILL), errors
                    said[index] = json.loads(output) if process.returncode == 0 else None
                    self.seen["killed" if said[index] is None else "ended"] += 1
            if all(one is not None for one in said):
                break
        return [one for one in said if one is not None]

    def _renew(self, proxy: FaultProxy) -> None:
        """The credentials end now; the file has the new ones at once, or a moment later."""
        time.sleep(self.chance.uniform(0, 0.8))
        old = self.keys[0][0]
        self.keys.reverse()
        proxy.faults.insert(
            0, Fault(lambda seen: seen.access_key == old, 10**6, status=403, code="ExpiredToken")
        )
        time.sleep(self.chance.choice([0.0, 0.5, 1.5]))
        self._write_keys()
        self.seen["renewed"] += 1

    def _kill(self, running: List[subprocess.Popen[str]]) -> None:
        time.sleep(self.chance.uniform(0.2, 1.5))
        for process in running:
            if self.chance.random() < 0.7 and process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)

    def check_uploads(self, said: List[List[str]]) -> None:
        """Every object is one of those that were written; what the writers have is there, or named."""
        named = [line for lines in said for line in lines]
        self.seen["named"] += len(named)
        there = {key: self.client.get(key).content for key in self.client.page().keys}
        for key, content in there.items():
            assert content in self.contents[key] or any(key in line for line in named), f"{key} is torn"
        for writer in "01":
            for name, content in tree(self.base / f"w{writer}").items():
                key = f"out{writer}/{name}"
                complete = there.get(key) == content
                assert complete or self._is_named(key, named), (
                    f"{key} is missing or old, and not named: {named}"
                )
        for name in ("model", "note"):
            newest = [(self.base / f"s{writer}" / name).read_bytes() for writer in "01"]
            key = f"shared/{name}"
            assert there.get(key) in newest or self._is_named(key, named), f"{key} is nobody's: {named}"
        self.there = there

    def check_downloads(self, said: List[List[str]]) -> None:
        named = [line for lines in said for line in lines]
        self.seen["named"] += len(named)
        found = tree(self.base / "in")
        for key, content in self.there.items():
            assert found.get(key) == content or self._is_named(key, named), f"{key} differs here: {named}"
        assert not [name for name in found if name.endswith(".ma_part")] or named

    def _is_named(self, key: str, named: List[str]) -> bool:
        return any(key in line or line.startswith("* ") for line in named)


@pytest.mark.kill
@pytest.mark.timeout(0)
@pytest.mark.parametrize(
    "pair",
    [
        pytest.param(("embedded", "v2"), id="embedded"),
        pytest.param(("radosgw", "v2"), id="radosgw", marks=RADOSGW),
    ],
)
def test_nothing_is_lost_in_silence(account: Account, tmp_path: Path) -> None:
    seed = int(os.environ.get("SEED") or random.randrange(1 << 31))
    until = time.monotonic() + float(os.environ.get("SOAK_SECONDS") or 60)
    client = Sdk(account, f"bucket-{uuid.uuid4().hex[:12]}", "v2")
    assert client.create_bucket().status == 200
    soak = Soak(account, client, tmp_path, random.Random(seed))
    while time.monotonic() < until:
        try:
            soak.rotate()
            writers = [["upload", f"w{one}", f"out{one}/", f"s{one}", "shared/"] for one in "01"]
            soak.check_uploads(soak.run(*writers))
            soak.check_downloads(soak.run(["download", "in", ""]))
        except Exception as error:
            raise AssertionError(f"round {soak.number} with SEED={seed}: {error}") from error
    print(f"SEED={seed}: {soak.number} rounds, {dict(soak.seen)}")
