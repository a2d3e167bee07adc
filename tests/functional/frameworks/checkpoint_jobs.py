"""Jobs with checkpoints for tests: started, killed in the middle, and what they have left in the store."""

from __future__ import annotations

import hashlib
import json
import os
import re
import signal
import subprocess
import sys
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ma_boot.node.checkpoints.layouts.formats import find_damage
from tests.functional.node import Ended, alive, eventually

PATIENCE = 240.0  # seconds until a framework has been imported by all ranks on a busy machine


@dataclass
class Job:
    """A rehearsal of `count` nodes with two ranks each, whose OBS stays from one start to the next."""

    root: Path
    arguments: list[str]
    count: int = 2
    started: list[subprocess.Popen[bytes]] = field(default_factory=list)

    @property
    def store(self) -> Path:
        """The directory of the output in the OBS of the rehearsal."""
        return self.root / "obs" / "bucket" / "ckpt"

    def start(self) -> Path:
        """Starts the job; returns the file of what it prints."""
        self.store.mkdir(parents=True, exist_ok=True)
        log = self.root / f"start-{len(self.started)}.log"
        with log.open("wb") as stream:
            self.started.append(
                subprocess.Popen(
                    [sys.executable, "-m", "ma_boot", "--local", "-v", "--nodes", str(self.count), "--devices-per-node", "2",
                     "--obs-root", str(self.root / "obs"),
                     "--rehearsal-dir", str(self.root / f"nodes-{len(self.started)}"), *self.arguments],
                    cwd=self.root, stdout=stream, stderr=subprocess.STDOUT, start_new_session=True,
                )
            )  # fmt: skip
        return log

    def ended(self, log: Path, seconds: float = PATIENCE) -> Ended:
        """Waits for the end of the last start."""
        code = self.started[-1].wait(seconds)
        return Ended(code, log.read_text(errors="replace"))

    def kill_everything(self) -> None:
        """SIGKILL to the rehearsal, whose guard ends nodes and ranks; returns when no node publishes any more."""
        nodes = self.nodes()
        self.started[-1].kill()
        self.started[-1].wait()
        eventually(lambda: not any(map(alive, nodes)), "the nodes have ended")

    def nodes(self) -> list[int]:
        """The processes of the nodes: children of the rehearsal, beside its guard."""
        rehearsal = self.started[-1].pid
        children = Path(f"/proc/{rehearsal}/task/{rehearsal}/children").read_text().split()
        nodes = [pid for pid in children if b"\0ma_boot\0run\0" in Path(f"/proc/{pid}/cmdline").read_bytes()]
        assert len(nodes) == self.count
        return [int(pid) for pid in nodes]

    def clean_up(self) -> None:
        """Ends what still runs, by its process group."""
        for process in self.started:
            if process.poll() is None:
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                process.wait()

    def wait_for_checkpoints(self, count: int, log: Path) -> None:
        """Waits until so many sets are whole in the store."""
        eventually(
            lambda: len(self.complete_checkpoints()) >= count or self.started[-1].poll() is not None,
            f"{count} complete checkpoints", PATIENCE,
        )  # fmt: skip
        assert self.started[-1].poll() is None, log.read_text(errors="replace")

    def complete_checkpoints(self) -> list[dict[str, Any]]:
        """Returns the complete checkpoints, the newest first."""
        return complete_checkpoints(self.store)

    def prune(self, keep: int) -> None:
        """Removes older sets by hand."""
        argv = [sys.executable, "-m", "ma_boot", "checkpoint", "prune", "obs://bucket/ckpt/"]
        options = ["--keep", str(keep), "--obs-root", str(self.root / "obs")]
        subprocess.run([*argv, *options], check=True, stdout=subprocess.DEVNULL)

    def newest(self) -> dict[str, Any] | None:
        """Returns the newest complete checkpoint, None for none."""
        return next(iter(self.complete_checkpoints()), None)


def complete_checkpoints(store: Path) -> list[dict[str, Any]]:
    """Returns the checkpoints with the manifests of all nodes, the newest first: attempt, step, order, files by path.

    Shares no code with the toolkit.
    """
    found = []
    for directory in sorted(path for path in store.glob(".ma_boot/manifests/*/*") if path.is_dir()):
        paths = sorted(directory.iterdir())
        names = [re.fullmatch(r"part-(\d+)-of-(\d+)(-empty)?\.json", path.name) for path in paths]
        numbers = {(int(name[1]), int(name[2])) for name in names if name}
        if numbers and numbers == {(node, len(numbers)) for node in range(len(numbers))}:
            found.append(_checkpoint(store, [json.loads(path.read_text()) for path in paths]))
    return [known for known in found if known["files"]]


def _checkpoint(store: Path, parts: list[dict[str, Any]]) -> dict[str, Any]:
    files = {file["path"]: store / file["key"] for part in parts for file in part["files"]}
    attempt, step = parts[0]["attempt"], parts[0]["step_name"]
    order = int(attempt.split("-")[1]), parts[0]["step"], parts[0]["version"]
    return {"attempt": attempt, "step": step, "order": order, "files": files}


def digests(files: dict[str, Path]) -> dict[str, str]:
    """Returns the digests of these files, by name."""
    return {name: hashlib.sha256(path.read_bytes()).hexdigest() for name, path in sorted(files.items())}


def damage_in(name: str, content: bytes) -> str:
    """Returns the damage of a file of this name, by its format; empty if there is none."""
    return find_damage(name, len(content), lambda offset, length: content[offset : offset + length])


def documents(output: str, word: str) -> list[dict[str, Any]]:
    """Returns the JSON that each rank has printed behind this word, by rank; not quotes of it in a report."""
    matches = (re.match(rf"(?:.*\] )?{word} (\{{.*)", line) for line in output.splitlines())
    return sorted((json.loads(match[1]) for match in matches if match), key=lambda facts: int(facts["rank"]))
