"""CANN's log files: which are read of a process, and how much of them."""

from __future__ import annotations

import os
from pathlib import Path

from ma_boot.node.observe.plogs import PLOG_BYTES, PlogWriter, plog_ends


def plog(place: Path, name: str, text: str = "", modified: int = 1000) -> Path:
    """Writes a log file, last modified at this time."""
    file = place / "debug" / "plog" / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes((text or name).encode("latin-1"))
    os.utime(file, (modified, modified))
    return file


def names_of(place: Path, writer: PlogWriter) -> list[str]:
    return plog_ends({"ASCEND_PROCESS_LOG_PATH": str(place)}, writer).split()


def test_ends_of_the_two_newest_logs_are_read_within_64_kib(tmp_path: Path) -> None:
    place = tmp_path / "a[1]"
    for number, text in enumerate(("oldest", "older", "x" * 70_000 + "old", "new\xff")):
        plog(place, f"plog-{9 - number}.log", text, modified=1000 + number)
    plog(place, "other.log", "other", modified=2000)
    read = plog_ends({"ASCEND_PROCESS_LOG_PATH": str(place)})
    assert read == "\n" + "x" * (PLOG_BYTES - len("new\xff") - len("old")) + "old\nnew\ufffd"
    assert plog_ends({"ASCEND_PROCESS_LOG_PATH": str(tmp_path)}) == ""
    assert plog_ends({"HOME": str(tmp_path)}) == ""


def test_logs_of_other_processes_are_not_read(tmp_path: Path) -> None:
    for name in ("plog-7_1.log", "plog-77_1.log", "plog-6_1.log", "plog-x_1.log", "plog-7_1.log.gz"):
        plog(tmp_path, name)
    assert names_of(tmp_path, PlogWriter(7)) == ["plog-7_1.log"]
    assert {*names_of(tmp_path, PlogWriter(7, with_children=True))} == {"plog-7_1.log", "plog-77_1.log"}


def test_logs_of_an_earlier_attempt_are_not_read(tmp_path: Path) -> None:
    plog(tmp_path, "plog-7_1.log", modified=1000)
    plog(tmp_path, "plog-7_2.log", modified=3000)
    assert names_of(tmp_path, PlogWriter(7, since=2000)) == ["plog-7_2.log"]


def test_links_fifos_and_unreadable_logs_are_skipped(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("secret")
    good = plog(tmp_path, "plog-7_1.log")
    good.with_name("plog-7_2.log").symlink_to(secret)
    good.with_name("plog-7_3.log").symlink_to("nothing")
    os.mkfifo(good.with_name("plog-7_4.log"))
    good.with_name("plog-7_5.log").mkdir()
    assert names_of(tmp_path, PlogWriter(7)) == ["plog-7_1.log"]


def test_default_directory_of_cann_is_read_for_one_process(tmp_path: Path) -> None:
    plog(tmp_path / "ascend" / "log", "plog-7_1.log")
    plog(tmp_path / "ascend" / "log", "plog-8_1.log")
    assert plog_ends({"HOME": str(tmp_path)}, PlogWriter(7)).split() == ["plog-7_1.log"]
