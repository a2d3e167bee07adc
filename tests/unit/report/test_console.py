"""Standard output and the journal: nothing blocks, nothing is lost without a word."""

from __future__ import annotations

import fcntl
import json
import os
import struct
import subprocess
import sys
import termios
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Callable

import pytest

from ma_boot.errors import CannotCreate, Stopped
from ma_boot.report.console import Console, has_colours, is_interactive, painted, print_bytes, print_lines
from ma_boot.report.journal import Journal
from tests.functional.node import eventually

MIB = 1 << 20


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    reader, writer = os.pipe()
    yield reader, writer
    for descriptor in (reader, writer):
        os.close(descriptor)


def read(descriptor: int, count: int) -> bytes:
    data = b""
    while len(data) < count:
        data += os.read(descriptor, count - len(data))
    return data


def write_until_lines_are_dropped(console: Console) -> None:
    def dropped_after_another() -> bool:
        console.write(b"c\n")
        return console.dropped_lines > 0

    eventually(dropped_after_another, "lines are dropped")


class TestAStalledReader:
    """Four MiB are kept, then lines are dropped and counted."""

    def test_writers_are_asked_to_pause_after_four_mebibytes(self, pipe: tuple[int, int]) -> None:
        console = Console(pipe[1], patience=600)
        for _ in range(4):
            console.write(b"x" * (MIB - 1) + b"\n")
        assert console.pause() == 0
        console.write(b"\n")
        eventually(lambda: console.pause() > 500, "the queue is full")
        assert (console.accepted, console.dropped_lines) == (4 * MIB + 1, 0)
        called = threading.Event()
        console.room_again = called.set
        assert read(pipe[0], 4 * MIB + 1).count(b"\n") == 5
        assert called.wait(60)
        assert console.pause() == 0
        console.flush()

    def test_a_paused_writer_is_called_once_there_is_room(self, pipe: tuple[int, int]) -> None:
        console, calls = Console(pipe[1], patience=600), []
        console.room_again = lambda: calls.append(1)
        for _ in range(7):
            console.write(b"x" * (MIB - 1) + b"\n")
        assert console.pause() > 500
        assert read(pipe[0], 7 * MIB).count(b"\n") == 7
        eventually(lambda: calls, "the call")
        for _ in range(3):
            console.write(b"a\n")
            console.flush()
        assert calls == [1]

    def test_colours_do_not_make_room(self, pipe: tuple[int, int]) -> None:
        console = Console(pipe[1], patience=600, colours=True)
        line = b"[rank 0] ERROR\n"
        console.write(1000 * line)
        read(pipe[0], len(painted(1000 * line)))
        console.flush()
        for _ in range(4):
            console.write(b"x" * (MIB - 1) + b"\n")
        console.write(b"\n")
        assert console.pause() > 500
        read(pipe[0], 4 * MIB + 1)

    def test_writing_on_is_no_sign_of_a_reader(self, pipe: tuple[int, int]) -> None:
        console = Console(pipe[1], patience=0.3)
        console.write(b"x" * (5 * MIB) + b"\n")
        write_until_lines_are_dropped(console)
        lost = f"[ma_boot] {console.dropped_lines} lines are not shown here: standard output was blocked\n"
        assert read(pipe[0], console.accepted + len(lost)).endswith(lost.encode())

    def test_a_writer_that_has_not_paused_is_not_called(self, pipe: tuple[int, int]) -> None:
        console, called = Console(pipe[1]), threading.Event()
        console.room_again = called.set
        for _ in range(3):
            console.write(b"a\n")
            console.flush()
        assert not called.is_set()

    def test_after_its_patience_lines_are_dropped_and_their_number_is_said(
        self, pipe: tuple[int, int]
    ) -> None:
        console = Console(pipe[1], patience=0.0)
        for _ in range(4):
            console.write(b"x" * (MIB - 1) + b"\n")
        assert console.dropped_lines == 0, "there is room, however long nobody reads"
        console.write(b"\n")
        console.write(b"lost\nlost\n")
        assert console.dropped_lines == 2
        assert console.pause() == 0, "nobody waits in vain"
        assert b"lost" not in read(pipe[0], 4 * MIB + 1)
        notice = b"[ma_boot] 2 lines are not shown here: standard output was blocked\n"
        assert read(pipe[0], len(notice)) == notice

    def test_a_reader_that_has_gone_ends_the_printing(self) -> None:
        reader, writer = os.pipe()
        os.close(reader)
        console = Console(writer)
        console.write(b"a\nb\n")
        write_until_lines_are_dropped(console)
        before = console.dropped_lines
        console.write(b"d\ne\n")
        assert (console.dropped_lines, console.pause()) == (before + 2, 0)
        console.flush()
        os.close(writer)

    def test_lines_left_in_the_queue_are_counted(self) -> None:
        reader, writer = os.pipe()
        console = Console(writer)
        console.write(b"x" * MIB + b"\n")  # more than a pipe takes: the thread is in the middle of it
        read(reader, 1)
        console.write(b"a\n")
        console.write(b"b\nc\n")
        os.close(reader)
        eventually(lambda: console.dropped_lines == 3, "all that it has not begun")
        os.close(writer)

    def test_without_a_thread_all_is_printed_at_once(self, pipe: tuple[int, int]) -> None:
        console = Console(pipe[1])
        before = threading.stack_size(1 << 46)  # bytes, which no thread gets
        try:
            console.write(b"a\n")
            assert os.read(pipe[0], 10) == b"a\n"
        finally:
            threading.stack_size(before)
        console.write(b"b\n")
        assert read(pipe[0], 2) == b"b\n"
        console.flush()

    def test_waiting_for_one_takes_no_processor(self, pipe: tuple[int, int]) -> None:
        console = Console(pipe[1], patience=0.5)
        console.write(b"x" * MIB + b"\n")
        before = time.thread_time()
        console.flush()  # for half a second
        assert time.thread_time() - before < 0.1
        assert len(read(pipe[0], MIB + 1)) == MIB + 1


class TestWithoutAConsole:
    """Output of commands without a queue."""

    def test_it_goes_to_standard_output(self, capfd: pytest.CaptureFixture[str]) -> None:
        print_lines("a\n\ud800")
        print_bytes(b"b\n")
        assert capfd.readouterr() == ("a\n\\ud800\nb\n", "")

    @pytest.mark.parametrize("way", [print_bytes, lambda data, sink: Console(sink).write(data)])
    def test_a_pipe_that_another_process_made_non_blocking_loses_nothing(
        self, pipe: tuple[int, int], way: Callable[[bytes, int], None]
    ) -> None:
        os.set_blocking(pipe[1], False)
        printing = threading.Thread(target=way, args=(b"x" * MIB + b"\n", pipe[1]))
        printing.start()
        assert read(pipe[0], MIB + 1) == b"x" * MIB + b"\n"
        printing.join()

    def test_a_reader_that_has_gone_is_no_error(self) -> None:
        reader, writer = os.pipe()
        os.close(reader)
        print_bytes(b"a\n", writer)
        os.close(writer)

    def test_a_full_disk_is_reported_except_for_standard_error(self) -> None:
        """Whoever would be told of the latter does not hear it."""
        full = os.open("/dev/full", os.O_WRONLY)
        with pytest.raises(CannotCreate, match=r"^cannot write to standard output: No space left on device$"):
            print_bytes(b"a\n", full)
        os.close(full)
        script = "from ma_boot.report.console import print_lines; print_lines('a', 2); print('went on')"
        with open("/dev/full", "w") as stderr:
            ended = subprocess.run(
                [sys.executable, "-c", script], stdout=subprocess.PIPE, stderr=stderr, check=False
            )
        assert (ended.returncode, ended.stdout) == (0, b"went on\n")


@pytest.mark.parametrize(("given", "size"), [((120, 40), (120, 40)), ((0, 0), (80, 24))])
def test_the_size_of_a_terminal(given: tuple[int, int], size: tuple[int, int]) -> None:
    """That of a container engine has none."""
    master, terminal = os.openpty()
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", given[1], given[0], 0, 0))
    assert Console(terminal).size == os.terminal_size(size)
    assert is_interactive({"TERM": "xterm"}, terminal)
    assert not is_interactive({"TERM": "dumb"}, terminal)
    assert not is_interactive({}, terminal)
    assert has_colours({"TERM": "xterm", "NO_COLOR": ""}, terminal)
    assert not has_colours({"TERM": "xterm", "NO_COLOR": "1"}, terminal)
    assert not has_colours({"TERM": "dumb"}, terminal)
    for descriptor in (master, terminal):
        os.close(descriptor)
    reader, writer = os.pipe()
    assert not is_interactive({"TERM": "xterm"}, writer)
    for descriptor in (reader, writer):
        os.close(descriptor)


def test_by_default_it_is_standard_output_and_ends_with_the_program() -> None:
    script = (
        "import os; from ma_boot.report.console import *; console = Console(); "
        "console.line(f'{is_interactive(os.environ)} {has_colours(os.environ)} {console.interactive} {console.size.columns}'); console.flush()"
    )
    master, terminal = os.openpty()
    subprocess.run(
        [sys.executable, "-c", script], stdin=subprocess.DEVNULL, stdout=terminal, stderr=subprocess.DEVNULL,
        env={**os.environ, "TERM": "xterm", "NO_COLOR": ""}, timeout=60, check=True,
    )  # fmt: skip
    assert os.read(master, 100) == b"True True False 80\r\n"
    for descriptor in (master, terminal):
        os.close(descriptor)


def test_lines_below_the_output_are_drawn_last_and_taken_away(tmp_path: Path) -> None:
    descriptor = os.open(tmp_path / "screen", os.O_CREAT | os.O_WRONLY)
    with Console(descriptor, interactive=True) as console:
        with console.below() as show:
            show(["one", "two"])
            console.flush()
            console.line("output")
            console.flush()
        show(["late"])
        console.line("end")
    os.close(descriptor)
    view = b"\x1b[?7lone\x1b[0m\ntwo\x1b[0m\n\x1b[?7h"
    away = b"\x1b[2F\x1b[J"
    assert (tmp_path / "screen").read_bytes() == view + away + b"output\n" + view + away + b"end\n"


def test_without_a_terminal_nothing_is_shown_below(tmp_path: Path) -> None:
    descriptor = os.open(tmp_path / "screen", os.O_CREAT | os.O_WRONLY)
    with Console(descriptor) as console:
        assert console.interactive is False
        with console.below() as show:
            show(["one"])
            console.line("output")
    os.close(descriptor)
    assert (tmp_path / "screen").read_bytes() == b"output\n"


class TestJournal:
    """A line and an event for each phase."""

    def test_phases_however_they_end(self, tmp_path: Path) -> None:
        descriptor = os.open(tmp_path / "screen", os.O_CREAT | os.O_WRONLY)
        with Console(descriptor) as console:
            journal = Journal(console)
            with journal.phase("job") as phase:
                phase.detail = "two\nlines"
            journal.open(tmp_path / "new" / "events.jsonl", 3)
            for error in (Stopped(15), ValueError("wrong:\nmore"), ValueError()):
                with pytest.raises(type(error)), journal.phase("run"):
                    raise error
            journal.close()
            journal.event("late")
        os.close(descriptor)
        lines = (tmp_path / "screen").read_text().splitlines()
        assert lines[:2] == ["[ma_boot] job: done in 0.0 s: two ", "[ma_boot] lines"], "progress, by its mark"
        assert lines[3] == "[ma_boot] run: failed in 0.0 s: wrong"
        events = [json.loads(line) for line in (tmp_path / "new" / "events.jsonl").read_text().splitlines()]
        assert [event["kind"] for event in events] == ["phase-start", "phase-end"] * 4
        assert [(event["phase"], event["outcome"], event["detail"]) for event in events[1::2]] == [
            ("job", "done", "two\nlines"),
            ("run", "stopped", str(Stopped(15))),
            ("run", "failed", "wrong"),
            ("run", "failed", "ValueError"),
        ]
        assert {event["node"] for event in events} == {3}

    def test_events_are_text_that_people_can_read(self, tmp_path: Path) -> None:
        with Console() as console:
            journal = Journal(console)
            journal.open(tmp_path / "events.jsonl", None)
            journal.event("waiting", reason="图")
            journal.close()
        assert '"reason": "图"' in (tmp_path / "events.jsonl").read_text(encoding="utf-8")

    def test_a_place_that_cannot_be_written_is_named(self, tmp_path: Path) -> None:
        (tmp_path / "file").touch()
        with Console() as console, pytest.raises(CannotCreate, match="MA_LOG_DIR names it"):
            Journal(console).open(tmp_path / "file" / "events", None)

    def test_a_write_error_is_reported_once(self, tmp_path: Path) -> None:
        descriptor = os.open(tmp_path / "screen", os.O_CREAT | os.O_WRONLY)
        with Console(descriptor) as console:
            journal = Journal(console)
            journal.open(Path("/dev/full"), None)
            for _ in range(3):
                journal.event("x")
            journal.close()
        os.close(descriptor)
        line = "[ma_boot] warning: events are no longer written: No space left on device\n"
        assert (tmp_path / "screen").read_text() == line


def test_a_line_of_ours_moves_no_cursor_and_sets_no_title(capfd: pytest.CaptureFixture[str]) -> None:
    with Console() as console:
        Journal(console).say("a \x1b]0;title\x07b\n\tc\x9b2J 图")
    assert capfd.readouterr().out == "[ma_boot] a \\x1b]0;title\\x07b\n[ma_boot] \tc\\x9b2J 图\n"
