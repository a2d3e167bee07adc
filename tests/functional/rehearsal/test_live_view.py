"""The live view of a rehearsal on a terminal: it is shown, and the output stays complete."""

from __future__ import annotations

import os
import shutil
import sys
import threading
from pathlib import Path

import pytest

from ma_boot.desk.rehearsal.live_view import NodeEvents, painted, view
from ma_boot.desk.rehearsal.platform.simulated_job import SimulatedJob
from ma_boot.report.console import Console
from ma_boot.report.timeline.events import read_events
from ma_boot.report.timeline.merge import timeline_of
from tests.functional.rehearsal.jobs import SHAPE
from tests.functional.terminal import Shown, in_terminal, screen_lines
from tests.synthetic import synthetic_job

LINES = 60
TRAIN = f"""
import os, time
rank = os.environ["RANK_ID"]
for number in range({LINES}):
    print(f"rank {{rank}} says {{number}}", flush=True)
    time.sleep(0.04)
"""


def rehearse(directory: Path, **variables: str) -> Shown:
    (directory / "train.py").write_text(TRAIN)
    environ = {"PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin", **variables}
    argv = [sys.executable, "-m", "ma_boot", "--local", *SHAPE, "train.py"]
    return in_terminal(argv, directory, environ, rows=24, columns=150)


@pytest.mark.invariant("The live view below the output loses no line")
def test_every_line_is_there_once_and_nothing_of_the_view_remains(tmp_path: Path) -> None:
    shown = rehearse(tmp_path, TERM="xterm")
    assert shown.code == 0
    assert b"2 of 2 nodes" in shown.written
    for node, rank in ((0, 0), (0, 1), (1, 2), (1, 3)):
        prefix = f"[node {node}] [rank {rank}] rank {rank} says "
        assert [line for line in shown.lines if line.startswith(prefix)] == [
            f"{prefix}{n}" for n in range(LINES)
        ]
    assert [line for line in shown.lines if "of 2 nodes" in line] == []
    assert [line for line in shown.lines if line][-1] == "[ma_boot] exit code 0: success"


def test_a_terminal_that_cannot_move_its_cursor_gets_plain_lines(tmp_path: Path) -> None:
    shown = rehearse(tmp_path, TERM="dumb")
    assert shown.code == 0
    assert b"\x1b" not in shown.written


def test_output_written_during_the_live_view_is_complete_and_in_order() -> None:
    read_end, write_end = os.pipe()
    taken: list[bytes] = []

    def take() -> None:
        while part := os.read(read_end, 1 << 16):
            taken.append(part)

    reader = threading.Thread(target=take)
    reader.start()
    with Console(write_end, interactive=True) as console:
        with console.below() as show:
            for number in range(2000):
                console.write(b"line %d\n" % number)
                if number % 7 == 0:
                    show((f"below {number}", "below too"))
                if number % 70 == 0:
                    console.flush()
        show(("too late",))
    os.close(write_end)
    reader.join(30)
    os.close(read_end)
    lines = screen_lines(b"".join(taken).replace(b"\n", b"\r\n"), rows=24, columns=80)
    assert list(filter(None, lines)) == [f"line {number}" for number in range(2000)]
    assert b"below 0" in b"".join(taken)
    assert b"too late" not in b"".join(taken)


def test_a_view_that_fails_disturbs_nothing(tmp_path: Path) -> None:
    (tmp_path / "broken" / "rich").mkdir(parents=True)
    (tmp_path / "broken" / "rich" / "__init__.py").write_text("")
    (tmp_path / "broken" / "rich" / "table.py").write_text("raise ZeroDivisionError('planted')")
    shown = rehearse(tmp_path, TERM="xterm", PYTHONPATH=str(tmp_path / "broken"))
    assert shown.code == 0
    assert b"2 of 2 nodes" not in shown.written
    assert b"planted" not in shown.written
    assert [line for line in shown.lines if line][-1] == "[ma_boot] exit code 0: success"


@pytest.mark.parametrize(("nodes", "most"), [(2, 17), (64, 17), (64, 2)])
def test_it_is_never_larger_than_its_part_of_the_terminal(nodes: int, most: int) -> None:
    rows = view(
        timeline_of([read_events(text, str) for text in synthetic_job(nodes, 8, fails=9)]), nodes, 71.0
    )
    lines = painted(rows, 60, most)
    assert len(lines) == min(nodes + 1, most)
    assert "71.0 s" in lines[0]
    assert f"{nodes} of {nodes} nodes" in lines[0]


def test_it_goes_on_where_a_file_vanishes_or_is_another_one(tmp_path: Path) -> None:
    """A node that is rescheduled loses its directory, at any moment."""
    job = SimulatedJob("uuid", str(tmp_path), 2, 8)
    texts = synthetic_job(2, 8, fails=9)[-2:]
    files = [Path(job.log_dir(node), "x-events.jsonl") for node in (0, 1)]
    for file, text in zip(files, texts):
        file.parent.mkdir(parents=True)
        file.write_text(text)
    events = NodeEvents(job)
    assert len(events.now().nodes) == 2
    files[1].unlink()
    files[1].symlink_to("vanished")
    assert len(events.now().nodes) == 2
    files[1].unlink()
    files[1].mkdir()
    assert len(events.now().nodes) == 2
    files[1].rmdir()
    shutil.rmtree(job.sandbox_root(1))
    assert len(events.now().nodes) == 2
    files[1].parent.mkdir(parents=True)
    files[1].write_text(texts[1].split("\n")[0].ljust(len(texts[1]) - 1) + "\n")
    (node,) = [node for node in events.now().nodes if node.number == 1]
    assert not node.runs[-1].processes
