"""Output of ranks: whole lines on standard output, all bytes in the log files; no rank is blocked."""

from __future__ import annotations

import os
import re
import threading
import time
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from ma_boot.node.supervisor.console_lines import PROGRESS_SECONDS
from tests.functional.node import RANK, Node, eventually, pids
from tests.functional.supervisor.conftest import Pipe

LOG = "modelarts-job-test-proc-rank-{0}-device-{0}.txt"


def printed(pieces: list[bytes], directory: Path) -> bytes:
    """Standard output after a rank has written the pieces; its log file must have them unchanged."""
    with closing(Pipe(directory)) as pipe:
        for piece in pieces:
            os.write(pipe.sink, piece)
            pipe.output.pump()
    assert pipe.log.read_bytes() == b"".join(pieces)
    return (directory / "screen").read_bytes()


class TestLines:
    """Prefix and end of a line."""

    @pytest.mark.parametrize(
        ("pieces", "shown"),
        [
            ([b"a\nb\n"], ["a", "b"]),
            ([b"a", b"b\nc"], ["ab", "c"]),
            ([b"\n\n"], ["", ""]),
            ([b"a\r\nb\r\n"], ["a", "b"]),
            ([b"a\r", b"\nb"], ["a", "b"]),
            ([b"caf\xe9\xff\n"], ["caf\xe9\xff"]),
            (["图".encode()[:1], "图".encode()[1:] + b"\n"], ["图".encode().decode("latin-1")]),
            ([b"\r 10%\r 20%", b"\r100%\n"], [" 10%", "100%"]),
            ([b"10%\r", b"20%\r", b"30%\r"], ["10%", "30%"]),
            ([b"10%\r", b"\n"], ["10%"]),
        ],
    )
    def test_lines_are_whole(self, tmp_path: Path, pieces: list[bytes], shown: list[str]) -> None:
        lines = printed(pieces, tmp_path).decode("latin-1").splitlines()
        assert lines == [f"[rank 0] {line}" for line in shown]

    @given(
        pieces=st.lists(
            st.binary(min_size=1, max_size=40).map(lambda b: b.replace(b"\r", b"\n")), max_size=20
        )
    )
    def test_all_output_arrives(self, tmp_path_factory: pytest.TempPathFactory, pieces: list[bytes]) -> None:
        screen = printed(pieces, tmp_path_factory.mktemp("output"))
        text = b"".join(pieces)
        expected = text.split(b"\n")[:-1] + ([rest] if (rest := text.rpartition(b"\n")[2]) else [])
        assert screen == b"".join(b"[rank 0] " + line + b"\n" for line in expected)

    def test_a_progress_bar_is_shown_every_few_seconds(self, tmp_path: Path) -> None:
        screen = printed([b"\r%d%%" % number for number in range(100)], tmp_path)
        assert len(screen.splitlines()) == 2
        assert PROGRESS_SECONDS >= 1


class TestSelection:
    """`--tee` selects the ranks on the console; the log files have all output."""

    @pytest.mark.parametrize(
        ("tee", "shown"), [("all", "01"), ("first", "0"), ("none", ""), ("1", "1"), ("0,1", "01")]
    )
    def test_by_rank(self, node: Node, tee: str, shown: str) -> None:
        ended = node.boot("--tee", tee, RANK, "print:hello")
        assert (
            "".join(re.findall(r"\[rank (\d)\] hello", "\n".join(sorted(ended.output.splitlines())))) == shown
        )
        assert [node.logs()[LOG.format(rank)] for rank in "01"] == [b"hello\n"] * 2

    def test_a_wrong_value_is_refused(self, node: Node) -> None:
        ended = node.boot("--tee", "some", RANK)
        assert ended.code == 64
        assert "expected all, first, none, or ranks such as 0,3" in ended.output


class TestLimits:
    """Problems with the output never stop the training."""

    def test_eight_writers_at_full_speed_lose_nothing(self, tmp_path: Path) -> None:
        node = Node(tmp_path, devices=8)
        node.complete_table()
        ended = node.boot(RANK, "lines:20000")
        assert ended.code == 0
        for rank in range(8):
            numbers = re.findall(rf"^\[rank {rank}\] {rank} (\d+) x{{80}}$", ended.output, re.MULTILINE)
            assert numbers == list(map(str, range(20000)))

    def test_a_line_of_100_mb_does_not_fill_memory(self, node: Node) -> None:
        running = node.start("--tee", "first", RANK, "wide:100", f"ready:{node.root}/done", "await:go")
        stdout = running.process.stdout
        assert stdout is not None
        while b"done" not in stdout.readline(1 << 16) and len(list(node.root.glob("done.*"))) < 2:
            pass
        status = Path(f"/proc/{running.process.pid}/status").read_text()
        (node.home / "go").write_text("")
        assert running.end().code == 0
        peak = re.search(r"VmHWM:\s+(\d+) kB", status)
        assert peak is not None
        assert int(peak.group(1)) < 80 * 1024
        assert len(node.logs()[LOG.format(1)]) == (100 << 20) + 1

    @pytest.mark.invariant("A stalled reader blocks nothing; logs are bytes")
    def test_stalled_reader_does_not_block_ranks(self, node: Node) -> None:
        running = node.start(
            RANK, "lines:200000", f"ready:{node.root}/done", "await:go", "print:after the reader resumed"
        )
        pids(node.root, "done.*", 2)
        assert running.process.poll() is None
        stdout = running.process.stdout
        assert stdout is not None
        chunks: list[bytes] = []
        thread = threading.Thread(target=lambda: chunks.append(stdout.read()))
        thread.start()
        eventually(lambda: drained(running.process.pid), "the reader has caught up")
        (node.home / "go").write_text("")
        running.process.wait(timeout=30)
        thread.join()
        stdout.close()
        output = b"".join(chunks).decode()
        assert running.process.returncode == 0
        assert re.search(r"\[ma_boot\] \d+ lines are not shown here: standard output was blocked\n", output)
        assert "[rank 0] after the reader resumed\n" in output
        assert output.splitlines()[-1] == "[ma_boot] exit code 0: success"
        assert node.logs()[LOG.format(0)].count(b"\n") == 200001

    def test_a_reader_that_never_resumes_does_not_delay_the_exit(self, node: Node) -> None:
        started = time.monotonic()
        running = node.start(RANK, "lines:200000", "exit:5:1")
        running.process.wait(timeout=30)
        assert running.process.returncode == 5
        assert time.monotonic() - started < 25
        assert running.process.stdout is not None
        running.process.stdout.close()

    def test_closed_standard_output_does_not_block_ranks(self, node: Node) -> None:
        both = ("ready:done", "await:done.0", "await:done.1")
        running = node.start(RANK, "await:go", "lines:1000", *both, "exit:6:all")
        eventually(lambda: node.in_phase("run"), "the run")
        assert running.process.stdout is not None
        running.process.stdout.close()
        (node.home / "go").write_text("")
        assert running.process.wait(timeout=30) == 6
        assert node.logs()[LOG.format(0)].count(b"\n") == 1000

    def test_full_log_disk_does_not_block_ranks(self, node: Node) -> None:
        running = node.start_by(["prlimit", "--fsize=20000"], RANK, "lines:1000", "print:the end")
        ended = running.end()
        assert ended.code == 0, ended.output
        assert "rank 0: its log file is incomplete from here on" in ended.output
        assert "[rank 0] the end\n" in ended.output
        assert re.search(r"\d+ bytes are missing in the log files of 2 processes", ended.output)
        assert len(node.logs()[LOG.format(0)]) == 20_000


def drained(pid: int) -> bool:
    """Returns True if the process has been idle for a moment."""
    before = Path(f"/proc/{pid}/io").read_text()
    time.sleep(0.3)
    return Path(f"/proc/{pid}/io").read_text() == before
