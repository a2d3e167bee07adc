"""Two `ma_boot sync upload` that write one key at the same time, on radosgw."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from tests import transfers
from tests.conformance.conftest import MIB, RADOSGW
from tests.conformance.faults.conftest import Bucket
from tests.obs import Fault, Seen

pytestmark = RADOSGW

ENDS_SECONDS = 90
LARGE = random.Random(3).randbytes(MIB) * 66  # five parts of the size that the command chooses
OTHER = random.Random(4).randbytes(MIB) * 67


class Nodes:
    """Two nodes, or two processes of one node, and what they upload."""

    def __init__(self, bucket: Bucket, first: Path, second: Path) -> None:
        self.bucket = bucket
        self.places = (first, second)
        self.running: list[subprocess.Popen[str]] = []

    def start(self, number: int) -> None:
        place = self.places[number]
        (place / "mapping.yaml").write_text(
            f"output: {{out: {{obs: 'obs://{self.bucket.name}/out/', checksum: true}}}}\n"
        )
        command = [sys.executable, "-m", "ma_boot", "sync", "upload", "mapping.yaml"]
        self.running.append(
            subprocess.Popen(
                command,
                cwd=place,
                env=self.bucket.variables,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                start_new_session=True,
            )
        )

    def end(self) -> list[int]:
        """Waits for those that run; returns their exit codes."""
        codes = []
        while self.running:
            process = self.running.pop(0)
            output, _ = process.communicate(timeout=ENDS_SECONDS)
            print(output)
            codes.append(process.returncode)
        return codes

    def kill(self, number: int) -> None:
        os.killpg(self.running[number].pid, signal.SIGKILL)


@pytest.fixture(params=["two-nodes", "one-directory"])
def nodes(request: pytest.FixtureRequest, bucket: Bucket, tmp_path: Path) -> Nodes:
    first, second = tmp_path / "0", tmp_path / "1"
    if request.param == "one-directory":
        second = first
    transfers.write(second / "out", {"large": OTHER, "small": b"other"})
    transfers.write(first / "out", {"large": LARGE, "small": b"small"})
    return Nodes(bucket, first, second)


def written(nodes: Nodes) -> list[dict[str, bytes]]:
    """Returns the contents that either of them may have stored."""
    return [transfers.tree(place / "out") for place in nodes.places]


def stored(bucket: Bucket) -> dict[str, bytes]:
    return {name: bucket.witness.get(f"out/{name}").content for name in ("large", "small")}


def is_of_either(objects: dict[str, bytes], nodes: Nodes) -> bool:
    return all(objects[name] in [files[name] for files in written(nodes)] for name in objects)


def test_both_end_well(bucket: Bucket, nodes: Nodes) -> None:
    """Both have begun their uploads before either sends a part, and sent their parts before either completes."""
    together = threading.Barrier(2)

    def meet(seen: Seen) -> None:
        together.wait(ENDS_SECONDS)

    for name in ("UploadPart", "CompleteMultipartUpload"):
        first_of_each: dict[str, Seen] = {}

        def is_first(seen: Seen, name: str = name, known: dict[str, Seen] = first_of_each) -> bool:
            upload = seen.query.get("uploadId", "")
            return seen.operation == name and known.setdefault(upload, seen) is seen

        bucket.proxy.faults.append(Fault(is_first, times=2, before=meet))
    nodes.start(0)
    nodes.start(1)
    assert nodes.end() == [0, 0]
    assert [fault.times for fault in bucket.proxy.faults] == [0, 0], "they did not meet"
    assert is_of_either(stored(bucket), nodes)
    assert bucket.witness.uploads() == []


def test_one_that_is_killed_costs_the_other_nothing(bucket: Bucket, nodes: Nodes) -> None:
    """The first is killed as its third part arrives, when the second has sent its own first part."""
    begun: list[str] = []  # the ids of the uploads
    second_sends, first_is_dead = threading.Event(), threading.Event()

    def kill(seen: Seen) -> None:
        nodes.start(1)
        assert second_sends.wait(ENDS_SECONDS)
        nodes.kill(0)
        first_is_dead.set()

    def wait(seen: Seen) -> None:
        second_sends.set()
        assert first_is_dead.wait(ENDS_SECONDS)

    def is_part_of(which: int, seen: Seen) -> bool:
        if seen.operation != "UploadPart":
            return False
        upload = seen.query["uploadId"]
        if upload not in begun:
            begun.append(upload)
        return begun.index(upload) == which

    third = 3
    bucket.proxy.faults += [
        Fault(lambda seen: is_part_of(0, seen) and seen.query["partNumber"] == str(third), before=kill),
        Fault(lambda seen: is_part_of(1, seen), before=wait),
    ]
    nodes.start(0)
    assert first_is_dead.wait(ENDS_SECONDS)
    assert nodes.end() == [-signal.SIGKILL, 0]
    assert stored(bucket) == written(nodes)[1]
    nodes.start(0)
    assert nodes.end() == [0]
    assert stored(bucket) == written(nodes)[0]
    assert bucket.witness.uploads() == []
    names = sorted(path.name for path in nodes.places[0].iterdir())
    assert names == [".out.ma_sync", "mapping.yaml", "out"]
