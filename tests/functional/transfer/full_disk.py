"""A program that runs commands where every directory that they may write to is on a disk without a free byte.

It needs a mount namespace of its own, with a small disk at /tmp. The arguments are the name of a case, the endpoint of OBS and
the number of files beside the ones with content.
"""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Callable

from tests.conftest import CREDENTIALS
from tests.functional.node import Node

HOME = Path("/tmp/home")
CONTENT = b"result " * 20_000
FILL = """
import os
def fill(name):
    with open(name, "wb", buffering=0) as file:
        for size in (1 << 16, 1 << 12, 1):
            try:
                while file.write(bytes(size)):
                    pass
            except OSError:
                pass
"""
TRAINING = f"""{FILL}
import sys
from pathlib import Path
out = Path(sys.argv[1])
out.mkdir(parents=True, exist_ok=True)
(out / "rank_0.bin").write_bytes({CONTENT[:7]!r} * {len(CONTENT) // 7})
fill("/tmp/fill")
"""
MOX = """
import path_mapping as mox
mox.file.copy_parallel("out", "obs://bucket/out")
mox.file.copy("out/rank_0.bin", "obs://bucket/out/copy")
"""


def fill() -> None:
    """Takes the last byte of the disk."""
    exec(FILL + "fill('/tmp/fill')")
    for place in ("/tmp", "/var/tmp", "/dev/shm", str(HOME)):
        try:
            with suppress(FileExistsError):
                Path(place, "one").write_bytes(b"x")
        except OSError as error:
            assert error.errno == errno.ENOSPC, error
        else:
            raise AssertionError(f"{place} is not full")


def output(count: int) -> None:
    """An output with so many empty files."""
    (HOME / "out").mkdir()
    (HOME / "out" / "rank_0.bin").write_bytes(CONTENT)
    for number in range(count):
        (HOME / "out" / f"{number:06}").touch()


def run(argv: list[str], environ: dict[str, str]) -> int:
    return subprocess.run(argv, cwd=HOME, env=environ, check=False).returncode


def sync(endpoint: str, count: int, command: str) -> int:
    """`ma_boot sync` of an output that was there before the disk was full."""
    output(count)
    (HOME / "mapping.yaml").write_text("output: {out: obs://bucket/out}\n")
    fill()
    environ = {"PATH": os.environ["PATH"], "HOME": str(HOME), "OBS_ENDPOINT": endpoint, **CREDENTIALS}
    return run([sys.executable, "-m", "ma_boot", "sync", command, "mapping.yaml"], environ)


def mox(endpoint: str, count: int, command: str) -> int:
    """Copies of a training script to OBS."""
    output(count)
    fill()
    environ = {"PATH": os.environ["PATH"], "HOME": str(HOME), "OBS_ENDPOINT": endpoint, **CREDENTIALS}
    return run([sys.executable, "-c", MOX], environ)


def job(endpoint: str, count: int, command: str) -> int:
    """A job whose training fills the disk before it ends."""
    node = Node(HOME, devices=1)
    node.complete_table()
    node.variables.update({"OBS_ENDPOINT": endpoint, **CREDENTIALS})
    (node.home / "train.py").write_text(TRAINING)
    route = {"obs": "obs://bucket/out"}
    if command == "checkpoint":
        route = {"obs": "obs://bucket/ckpt", "checkpoint": "iter_{step}/rank_{rank}.bin"}
    place = "iter_10" if command == "checkpoint" else ""
    (node.root / "mapping.py").write_text(
        f"PATH_MAPPING_CONFIG = { ({'output': {str(HOME / 'out'): route}})!r}\n"
    )
    ended = node.boot(
        "--path-mapping", str(node.root / "mapping.py"), "--python", sys.executable, "train.py", f"{HOME}/out/{place}"
    )  # fmt: skip
    print(ended.output)
    return ended.code


CASES: dict[str, Callable[[str, int, str], int]] = {
    "upload": sync,
    "plan": sync,
    "outputs": job,
    "checkpoint": job,
    "mox": mox,
}

if __name__ == "__main__":
    HOME.mkdir()
    sys.exit(CASES[sys.argv[1]](sys.argv[2], int(sys.argv[3]), sys.argv[1]))
