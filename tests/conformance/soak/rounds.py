"""The rounds of a soak: writers, a reader and `mox.file` in processes of their own, behind a proxy that breaks requests."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Callable

from tests.conformance import radosgw as ceph
from tests.conformance.clients import Account, Boto
from tests.conformance.soak import mox_model
from tests.conformance.soak.model import ReaderModel, WriterModel, digest
from tests.conformance.soak.mox_model import Operation, World
from tests.obs import Fault, FaultProxy, Seen, operation
from tests.transfers import tree

ROOT = Path(__file__).parents[3]
MIB = 1 << 20
KEPT = 3  # checkpoints of a writer
TRIES = 4
ENDS_SECONDS = 300
PREFIXES = {"w0": "out0/", "w1": "out1/", "s0": "shared/", "s1": "shared/"}
MOVES = ("GetObject", "PutObject", "UploadPart")
OTHERS = (
    *("ListObjects", "CreateMultipartUpload", "CompleteMultipartUpload", "HeadObject"),
    *("ListParts", "AbortMultipartUpload", "DeleteObject", "CopyObject"),
)

Lines = list[dict[str, Any]]


class Soak:
    """Two writers, each with an output of its own and one that both have, a reader, and a user of `mox.file`."""

    def __init__(self, account: Account, witness: Boto, base: Path, chance: random.Random) -> None:
        self.account, self.witness, self.base, self.chance = account, witness, base, chance
        self.counted: Counter[str] = Counter()
        self.number = 0
        self._writers, self._reader = WriterModel(PREFIXES), ReaderModel()
        self._world = World({}, {})
        self._digests: dict[tuple[str, str], str] = {}
        self._asked: dict[str, list[str]] = {}  # what was asked of each multipart upload
        self._keys = [
            (account.access_key, account.secret_key),
            (ceph.NEW_ACCESS_KEY, ceph.NEW_SECRET_KEY),
        ]
        self._write_keys()

    def round(self) -> None:
        """Writes, uploads, uses `mox.file` and downloads; raises `AssertionError` where something is not right."""
        self.number += 1
        calls = self._calls()
        if self.chance.random() < 0.4:
            self._train(calls)
        else:
            self._rotate(None)
            self._meddle()
            self._check_uploads(self._until_ended([self._upload(writer) for writer in "01"], calls))
        self._change_here()
        download = {"way": "download", "routes": [("in", "")]}
        self._check_download(self._until_ended([download], None))

    # What happens on the disk and in the bucket

    def _rotate(self, observe: Callable[[], None] | None) -> None:
        """Each writer writes a checkpoint and its `latest`, and removes its oldest one; both write two shared keys.

        With `looked`, which is called in the middle, files are written slowly, as they are by a training.
        """
        self.counted["rotations"] += 1
        step = self.counted["rotations"]
        for writer in "01":
            sizes = [0, 1000, 300_000, 7 * MIB, 11 * MIB + 3] * 4 + [33 * MIB + 5]
            content = self.chance.randbytes(self.chance.choice(sizes))
            own, shared = f"w{writer}", f"s{writer}"
            self._write(own, f"ckpt-{step:07}", content, observe)
            self._write(own, "latest", self.chance.randbytes(len(content)), observe)
            self._write(shared, "model", self.chance.randbytes(6 * MIB + int(writer)), observe)
            self._write(shared, f"note-{step:07}", self.chance.randbytes(500), None)
            for directory, pattern in ((own, "ckpt-*"), (shared, "note-*")):
                for old in sorted((self.base / directory).glob(pattern))[:-KEPT]:
                    old.unlink()
                    self._writers.removed(directory, old.name)

    def _write(self, directory: str, name: str, content: bytes, observe: Callable[[], None] | None) -> None:
        path = self.base / directory / name
        path.parent.mkdir(exist_ok=True)
        self._writers.begins(directory, name, digest(content))
        if observe is None:
            path.write_bytes(content)
        elif self.chance.random() < 0.4:
            new = path.with_name(f"{name}.new")
            self._writers.begins(directory, new.name, digest(content))
            self._slowly(new, "wb", content, observe)
            observe()
            new.replace(path)
        else:
            in_place = path.exists() and path.stat().st_size == len(content)
            self._slowly(path, "r+b" if in_place else "wb", content, observe)
        self._writers.has(directory, name, digest(content))

    def _slowly(self, path: Path, mode: str, content: bytes, observe: Callable[[], None]) -> None:
        half = self.chance.randrange(len(content) + 1)
        with path.open(mode) as file:
            file.write(content[:half])
            file.flush()
            time.sleep(self.chance.choice([0.0, 0.1, 0.5]))
            observe()
            file.write(content[half:])

    def _meddle(self) -> None:
        """Overwrites, adds and deletes objects of the writers, as another client."""
        chance = self.chance
        for writer in "01":
            keys = [key for key in self.witness.page(f"out{writer}/").keys if "theirs" not in key]
            if keys and chance.random() < 0.4:
                self._put(chance.choice(keys), chance.randbytes(chance.choice([1000, 300_000])))
            if keys and chance.random() < 0.2:
                self._delete(chance.choice(keys))
        if chance.random() < 0.1:
            self._put(f"out0/theirs-{self.number}", b"theirs")

    def _put(self, key: str, content: bytes) -> None:
        assert self.witness.put(key, content).status == 200
        self._writers.overwritten(key, digest(content))

    def _delete(self, key: str) -> None:
        self.witness.delete(key)
        self._writers.deleted(key)

    def _change_here(self) -> None:
        """The user removes, changes and adds files among the downloaded ones."""
        names = sorted(tree(self.base / "in"))
        for change in ("remove", "change", "add"):
            if self.chance.random() < 0.2 and names:
                path = self.base / "in" / self.chance.choice(names)
                if change == "remove":
                    path.unlink(missing_ok=True)
                    self._reader.removed(str(path.relative_to(self.base / "in")))
                    continue
                path = path if change == "change" else self.base / "in" / f"mine-{self.number}"
                content = self.chance.randbytes(path.stat().st_size if path.exists() else 10)
                path.write_bytes(content)
                self._reader.changed(str(path.relative_to(self.base / "in")), digest(content))

    # Processes, and what happens to them

    def _upload(self, writer: str, **more: Any) -> dict[str, Any]:
        routes = [(f"w{writer}", f"out{writer}/"), (f"s{writer}", "shared/")]
        return {"way": "upload", "routes": routes, **more}

    def _calls(self) -> list[Operation] | None:
        count = self.chance.choice([0, 4, 10])
        return mox_model.operations(self.chance, self._world, count) if count else None

    def _begin(self, url: str, task: dict[str, Any]) -> subprocess.Popen[str]:
        known = {"url": url, "base": str(self.base), "keys": f"{self.base}/keys.json"}
        argument = json.dumps({**known, "bucket": self.witness.bucket, **task})
        command = [sys.executable, "-m", "tests.conformance.soak.program", argument]
        pipe = subprocess.PIPE
        return subprocess.Popen(
            command, stdin=pipe, stdout=pipe, stderr=pipe, text=True, cwd=ROOT, start_new_session=True
        )

    def _lines(self, process: subprocess.Popen[str]) -> tuple[bool, Lines]:
        """Tells whether the process ended by itself, with its output."""
        output, errors = process.communicate(timeout=ENDS_SECONDS)
        ended = process.returncode == 0
        assert ended or process.returncode == -signal.SIGKILL, errors
        self.counted["ended" if ended else "killed"] += 1
        lines = [json.loads(line) for line in output.splitlines(keepends=True) if line.endswith("\n")]
        return ended, lines

    @contextmanager
    def _proxy(self, observed: bool = False) -> Iterator[FaultProxy]:
        """A proxy with faults. Where the bucket is looked at meanwhile, no small object arrives wrong: until it
        is sent again, it is in the bucket."""
        with FaultProxy(self.account.url) as proxy:
            proxy.faults += self._faults(("UploadPart",) if observed else ("PutObject", "UploadPart"))
            yield proxy
            self.counted["requests"] += len(proxy.seen)
            self.counted["faults"] += sum(1 for fault in proxy.faults if fault.times == 0)
            for seen in proxy.seen:
                if "uploadId" in seen.query:
                    request = f"{seen.operation} {seen.query.get('partNumber', '')}".strip()
                    self._asked.setdefault(seen.query["uploadId"], []).append(request)

    def _until_ended(
        self, tasks: Sequence[dict[str, Any]], calls: list[Operation] | None
    ) -> tuple[list[str], list[str]]:
        """Runs these at once, with faults, kills and renewals, and those that are killed again.

        Returns their failures and notices. The calls of `mox.file` run beside them, and only once.
        """
        left, failures, notices = list(tasks), [], []
        for attempt in range(TRIES):
            with self._proxy() as proxy:
                running = [(task, self._begin(proxy.url, task)) for task in left]
                beside = self._begin_calls(proxy.url, calls) if attempt == 0 else None
                everybody = [process for _, process in running] + ([beside] if beside else [])
                if self.chance.random() < 0.4:
                    self._renew(proxy)
                if attempt < TRIES - 1 and self.chance.random() < 0.5:
                    time.sleep(self.chance.uniform(0.2, 1.5))
                    self._kill(everybody)
                left = []
                for task, process in running:
                    ended, lines = self._lines(process)
                    if not ended:
                        left.append({**task, "periodic": False})
                        continue
                    failures += lines[-1]["failures"]
                    notices += lines[-1]["notices"]
                if beside is not None and calls is not None:
                    self._check_calls(calls, self._lines(beside))
            if not left:
                break
        assert not left
        return failures, notices

    def _begin_calls(self, url: str, calls: list[Operation] | None) -> subprocess.Popen[str] | None:
        return self._begin(url, {"way": "mox", "operations": calls}) if calls else None

    def _train(self, calls: list[Operation] | None) -> None:
        """Writers that upload in rounds while their files are rotated, and then once more."""
        with self._proxy(observed=True) as proxy:
            tasks = [self._upload(writer, periodic=True) for writer in "01"]
            running = [self._begin(proxy.url, task) for task in tasks]
            beside = self._begin_calls(proxy.url, calls)
            killed = self.chance.choice([0, 0, 1, 2])
            for rotation in range(3):
                self._rotate(self._observe)
                if rotation == 1 and self.chance.random() < 0.5:
                    self._renew(proxy)
                if rotation + 1 == killed:
                    self._kill(running)
            outcomes = [self._lines(process) for process in running]
            if beside is not None and calls is not None:
                self._check_calls(calls, self._lines(beside))
        failures, notices, left = [], [], []
        for task, (ended, lines) in zip(tasks, outcomes):
            self.counted["moved in rounds"] += sum(line.get("moved", 0) for line in lines)
            self.counted["missed in rounds"] += sum("missed" in line for line in lines)
            if ended:
                failures += lines[-1]["failures"]
                notices += lines[-1]["notices"]
            else:
                left.append({**task, "periodic": False})
        if left:
            more_failures, more_notices = self._until_ended(left, None)
            failures, notices = failures + more_failures, notices + more_notices
        self._check_uploads((failures, notices))

    def _faults(self, flipped: Sequence[str]) -> list[Fault]:
        chance = self.chance
        every = MOVES * 2 + OTHERS
        kinds: list[Callable[[], dict[str, Any]]] = [
            lambda: {"when": self._some(*every), "status": chance.choice([500, 503, 429, 408])},
            lambda: {"when": self._some(*every), "status": 500, "forwarded": True},
            lambda: {"when": self._some(*every), "reset": True, "forwarded": chance.random() < 0.5},
            lambda: {"when": self._some("CompleteMultipartUpload", "PutObject"), "status": 503},
            lambda: {"when": self._some("GetObject"), "cut_answer": chance.randrange(1, 400)},
            lambda: {"when": self._some("GetObject"), "flip_answer": chance.randrange(400)},
            lambda: {"when": self._some(*flipped), "flip_request": chance.randrange(400)},
            lambda: {"when": self._some(*MOVES), "stall": chance.random() < 0.1, "status": 503},
        ]
        return [Fault(**chance.choice(kinds)()) for _ in range(chance.randrange(7))]

    def _some(self, *names: str) -> Callable[[Seen], bool]:
        """Picks requests of one of these operations, but not the first ones."""
        wanted, left = operation(self.chance.choice(names)), self.chance.choice([0, 0, 1, 3, 10])

        def picks(seen: Seen) -> bool:
            nonlocal left
            left -= wanted(seen)
            return left < 0 and wanted(seen)

        return picks

    def _renew(self, proxy: FaultProxy) -> None:
        """The credentials end now; the file has the new ones at once, or a moment later."""
        time.sleep(self.chance.uniform(0, 0.8))
        old = self._keys[0][0]
        self._keys.reverse()
        ended = Fault(lambda seen: seen.access_key == old, 10**6, status=403, code="ExpiredToken")
        proxy.faults.insert(0, ended)
        time.sleep(self.chance.choice([0.0, 0.5, 1.5]))
        self._write_keys()
        self.counted["renewals"] += 1

    def _write_keys(self) -> None:
        new = self.base / "keys.new"
        new.write_text(json.dumps(self._keys[0]))
        new.replace(self.base / "keys.json")

    def _kill(self, running: Sequence[subprocess.Popen[str]]) -> None:
        for process in running:
            if self.chance.random() < 0.7 and process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)

    # What must be there

    def _in_bucket(self, prefix: str = "") -> dict[str, str]:
        """The digests of all objects; an object with the same key and ETag is read only once."""
        page = self.witness.page(prefix)
        assert page.next is None
        for key, etag in zip(page.keys, page.etags):
            if (key, etag) not in self._digests:
                got = self.witness.get(key)
                if got.status == 200:  # else it was deleted meanwhile
                    self._digests[key, got.etag] = digest(got.content)
        known = ((key, self._digests.get((key, etag))) for key, etag in zip(page.keys, page.etags))
        return {key: content for key, content in known if content is not None}

    def _observe(self) -> None:
        """No object is ever torn, not even while files are written."""
        self._raise(self._writers.torn(self._in_bucket(), []))

    def _check_uploads(self, outcome: tuple[list[str], list[str]]) -> None:
        failures, notices = outcome
        self.counted["named"] += len(failures)
        self._raise(self._writers.problems(self._in_bucket(), failures, notices))
        if not failures:
            self._check_leftovers()

    def _check_leftovers(self) -> None:
        """No multipart upload is left whose id a writer knew: an upload with an unknown id cannot be aborted."""
        left = [(key, upload) for key, upload in self.witness.uploads() if not key.startswith("mox/")]
        self.counted["unknown uploads"] = len(left)
        self._raise(
            [
                f"a multipart upload of {key} is left, with {self.witness.parts(key, upload)}: {self._asked[upload]}"
                for key, upload in left
                if upload in self._asked
            ]
        )

    def _check_download(self, outcome: tuple[list[str], list[str]]) -> None:
        failures, _ = outcome
        self.counted["named"] += len(failures)
        here = {name: digest(content) for name, content in tree(self.base / "in").items()}
        unfinished = [name for name in here if name.endswith(".ma_part")]
        assert not unfinished or failures, unfinished
        self._raise(self._reader.problems(here, self._in_bucket(), failures))

    def _check_calls(self, calls: list[Operation], outcome: tuple[bool, Lines]) -> None:
        """Compares the results of `mox.file`, its objects in OBS, and its local files."""
        ended, lines = outcome
        world, doubtful = self._world, None
        for number, asked in enumerate(calls):
            line = lines[number] if number < len(lines) else {}
            self.counted["calls"] += 1
            if "result" not in line:
                assert line or not ended, f"{asked} said nothing"
                self.counted["calls that failed"] += bool(line)
                doubtful = asked
                break
            if mox_model.answer(world, asked) is not None:
                assert line["result"] == mox_model.answer(world, asked), f"{asked} returned {line}"
            world = mox_model.after(world, asked)
        keys = self.witness.page("mox/").keys
        files = tree(self.base / "m")
        for name in [name for name in files if name.endswith(".new")]:
            (self.base / "m" / name).unlink()
            del files[name]
        actual = World({key[4:]: self.witness.get(key).content for key in keys}, files)
        self._raise(mox_model.problems(world, doubtful, actual))
        self._world = actual

    def _raise(self, problems: Sequence[str]) -> None:
        assert not problems, "\n".join(problems)
