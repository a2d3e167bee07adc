"""Log files in the background: in order, and no caller waits for the file system."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from ma_boot.report.log_writer import QUEUE_BYTES, LogFile, LogWriter


class StalledLog(LogFile):
    """A pipe without a reader so far."""

    def __init__(self) -> None:
        self.reasons: list[str] = []
        self.reader, writer = os.pipe()
        super().__init__(os.fdopen(writer, "wb", 0), self.reasons.append)

    def read(self, count: int) -> bytes:
        data = b""
        while len(data) < count:
            data += os.read(self.reader, count - len(data))
        return data


@pytest.fixture
def stalled() -> Iterator[StalledLog]:
    log = StalledLog()
    yield log
    log.close()
    os.close(log.reader)


def test_files_are_written_in_the_order_of_the_calls_and_closed_at_their_end(tmp_path: Path) -> None:
    logs = LogWriter()
    opened = [os.open(tmp_path / name, os.O_CREAT | os.O_WRONLY) for name in "ab"]
    files = [LogFile(os.fdopen(descriptor, "wb", 0), print) for descriptor in opened]
    for number in range(1000):
        logs.append(files[number % 2], b"%d\n" % number)
    for file in files:
        logs.close(file)
    logs.append(files[0], b"late")
    logs.flush()
    written = [list(map(int, (tmp_path / name).read_text().split())) for name in "ab"]
    assert written == [list(range(0, 1000, 2)), list(range(1, 1000, 2))]
    assert [file.lost for file in files] == [4, 0]


def test_bytes_beyond_the_queue_are_lost_after_the_patience(stalled: StalledLog) -> None:
    logs = LogWriter(patience=0)
    logs.append(stalled, b"x" * (QUEUE_BYTES + 1))
    logs.flush()
    for _ in range(2):
        logs.append(stalled, b"y" * 10)
    assert (stalled.lost, stalled.reasons) == (20, ["the file system has not answered for 0 s"])
    assert stalled.read(QUEUE_BYTES + 1) == b"x" * (QUEUE_BYTES + 1)
    logs = LogWriter()
    logs.append(stalled, b"z")
    assert stalled.read(1) == b"z", "the file goes on"


def test_an_error_ends_the_file() -> None:
    reasons: list[str] = []
    file = LogFile(os.fdopen(os.open("/dev/full", os.O_WRONLY), "wb", 0), reasons.append)
    logs = LogWriter()
    for _ in range(3):
        logs.append(file, b"12345")
    logs.flush()
    assert (file.lost, reasons) == (15, ["No space left on device"])
