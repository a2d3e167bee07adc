"""Sizes of the image and its layers, and how long builds and the check take.

    python benchmarks/image.py [BASE_IMAGE]     (make bench-image; as root, with an engine and debootstrap)

The base is Debian with Python, made by the recipe of the tests, unless one is named. A first build takes
nothing from the cache of the engine; the check is the median of five. The table goes into docs/image.md.
"""

from __future__ import annotations

import io
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import tables

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "image.md"
FILES = ("Dockerfile", ".dockerignore", "entrypoint", "pyproject.toml", "README.md", "LICENSE")
PACKAGES = ("image", "ma_boot", "path_mapping")
TAG = "ma-boot-benchmark"
BASE = f"{TAG}-base"
CHECKS = 5
MEGABYTE = 1e6


def seconds(*words: str) -> float:
    """How long a command of ma_boot takes; exits if it fails."""
    before = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-m", "ma_boot", "image", *words],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        sys.exit(done.stdout + done.stderr)
    return time.perf_counter() - before


def context(place: Path) -> Path:
    """The files of a clone that the image is built from."""
    for name in FILES:
        shutil.copy2(ROOT / name, place / name)
    for name in PACKAGES:
        shutil.copytree(ROOT / name, place / name, ignore=shutil.ignore_patterns("__pycache__"))
    return place


def inside(client: Any, path: str) -> float:
    """The size of a directory of the image, in MB."""
    output = client.containers.run(TAG, ["du", "-sb", path], entrypoint="", user="root", remove=True)
    return int(output.split()[0]) / MEGABYTE


def never_built_on(client: Any, base: str) -> str:
    """The base under a name of this run, with a label of this run, for which the engine has no cache."""
    dockerfile = f"FROM {base}\nLABEL ma_boot.benchmark={time.time()}\n"
    client.images.build(fileobj=io.BytesIO(dockerfile.encode()), tag=BASE, rm=True, forcerm=True)
    return BASE


def rows(client: Any, base: str, place: Path) -> list[str]:
    """The table's rows; builds the image twice and checks it."""
    built = context(place)
    build = ["build", str(built), "--tag", TAG, "--build-arg", f"BASE_IMAGE={never_built_on(client, base)}"]
    first = seconds(*build)
    (built / "image" / "code" / "train.py").write_text("print('changed')\n")
    again = seconds(*build)
    checks = statistics.median(seconds("check", TAG) for _ in range(CHECKS))
    whole, below = (client.images.get(name).attrs["Size"] / MEGABYTE for name in (TAG, base))
    return [
        f"| the toolkit, `/opt/ma_boot` | {inside(client, '/opt/ma_boot'):.0f} MB |",
        f"| a training environment without packages | {inside(client, '/home/ma-user/anaconda3'):.0f} MB |",
        f"| image on a base of {below:.0f} MB | {whole:.0f} MB |",
        f"| first build, packages from an index | {first:.0f} s |",
        f"| build after a change of the training code | {again:.1f} s |",
        f"| `ma_boot image check` | {checks:.1f} s |",
    ]


def main() -> None:
    """Measures, prints, and writes the table."""
    import docker

    client = docker.from_env(timeout=600)
    if len(sys.argv) > 1:
        base = sys.argv[1]
    else:
        sys.path.insert(0, os.fspath(ROOT))
        from tests.container import bases

        base = bases.plain(client)
    with tempfile.TemporaryDirectory() as name:
        table = "\n".join(["| | |", "|---|---|", *rows(client, base, Path(name))])
    for name in (TAG, BASE):
        client.images.remove(name, force=True)
    print(table)
    tables.write("image", table, (PAGE,))


if __name__ == "__main__":
    main()
