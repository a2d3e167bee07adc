"""What an upload costs beside the bytes that it sends: nothing is read twice, nothing is loaded for it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from ma_boot.rehearsal.obs_server import ObsServer
from tests.transfers import content_of, obs_store, route, send

MIB = 1 << 20
CONTENT = os.urandom(MIB) * 7 + b"the end"
PARTS = """
import sys
from pathlib import Path
from path_mapping.transfer import upload_file
from tests.transfers import obs_store
store = obs_store(sys.argv[1], multipart_from=6 << 20, part=5 << 20)
upload_file(store, Path(sys.argv[2]), "bucket", "large")
print(store.find("bucket", "large").size, "obs" in sys.modules)
"""


def bytes_read() -> int:
    """By `read` and its like, of this process, whose sockets are received from."""
    lines = Path("/proc/self/io").read_text().splitlines()
    return int(dict(line.split(": ") for line in lines)["rchar"])


@pytest.mark.parametrize("multipart_from", [64 * MIB, 6 * MIB])
def test_a_file_is_read_once(obs: ObsServer, tmp_path: Path, multipart_from: int) -> None:
    """Its checksum is made of what is sent."""
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "a").write_bytes(CONTENT)
    store = obs_store(obs.url, multipart_from=multipart_from, part=5 * MIB)
    before = bytes_read()
    done = send(store, tmp_path, route("out", "out"))
    read = bytes_read() - before
    assert (done.files, done.by_length) == (1, 0)
    at_the_server = len(CONTENT) if multipart_from < len(CONTENT) else 0  # it assembles the parts
    assert read - at_the_server < 1.5 * len(CONTENT)
    assert content_of(store, "out/a") == CONTENT


def test_parts_are_sent_without_the_sdk(obs: ObsServer, tmp_path: Path) -> None:
    """It takes longer to be imported than a hundred requests."""
    (tmp_path / "large").write_bytes(CONTENT)
    done = subprocess.run(
        [sys.executable, "-c", PARTS, obs.url, str(tmp_path / "large")],
        check=True,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert done.stdout.split() == [str(len(CONTENT)), "False"]
