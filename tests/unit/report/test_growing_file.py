"""The reader of files that grow: complete lines, each once."""

from __future__ import annotations

from pathlib import Path

from ma_boot.report.growing_file import GrowingFile


def append(path: Path, data: bytes) -> None:
    with path.open("ab") as file:
        file.write(data)


def test_a_line_is_returned_once_it_is_complete(tmp_path: Path) -> None:
    path = tmp_path / "log"
    file = GrowingFile(path)
    assert file.new_lines() == [], "the file does not exist yet"
    append(path, b"one\ntw")
    assert file.new_lines() == ["one"]
    assert file.new_lines() == []
    append(path, "o \N{SNOWMAN}".encode()[:3])
    assert file.new_lines() == []
    append(path, "o \N{SNOWMAN}\n\nthree\n".encode()[3:])
    assert file.new_lines() == ["two \N{SNOWMAN}", "", "three"]
    assert file.count_lines() == 4


def test_earlier_lines_are_skipped(tmp_path: Path) -> None:
    path = tmp_path / "log"
    append(path, b"old\n")
    file = GrowingFile.from_now_on(path)
    missing = GrowingFile.from_now_on(tmp_path / "missing")
    append(path, b"new\n")
    append(tmp_path / "missing", b"first\n")
    assert (file.new_lines(), missing.new_lines()) == (["new"], ["first"])


def test_files_larger_than_one_read_are_read_completely(tmp_path: Path) -> None:
    path = tmp_path / "log"
    line = b"x" * 1023 + b"\n"
    append(path, line * (3 * GrowingFile.READ_BYTES // len(line) + 1))
    assert GrowingFile(path).count_lines() == 3 * GrowingFile.READ_BYTES // len(line) + 1
