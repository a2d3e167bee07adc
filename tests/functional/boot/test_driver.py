"""Programs of old drivers around a job, by stand-ins."""

from __future__ import annotations

from pathlib import Path

from ma_boot.platform.modelarts.platform_programs import call_post_stop, start_slogd
from tests.functional.node import eventually


def program(path: Path, text: str, mode: int = 0o755) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("#!/bin/sh\n" + text)
    path.chmod(mode)


def test_programs_of_the_driver_are_called_where_they_exist(tmp_path: Path) -> None:
    lines: list[str] = []
    program(tmp_path / "docker" / "slogd", f"echo $NAME >{tmp_path}/slogd.called\n")
    program(tmp_path / "docker_stop_post_sys.sh", f"touch {tmp_path}/stop.called; exit 3\n", 0o644)
    start_slogd({"NAME": "value"}, lines.append, tmp_path)
    call_post_stop({}, lines.append, tmp_path)
    eventually((tmp_path / "slogd.called").exists, "slogd ran")
    eventually(lambda: (tmp_path / "slogd.called").read_text() == "value\n", "with its environment")
    assert (tmp_path / "stop.called").exists()
    assert lines[0] == f"started {tmp_path}/docker/slogd"
    assert lines[1].endswith("docker_stop_post_sys.sh ended with exit code 3")


def test_driver_without_programs_is_no_problem(tmp_path: Path) -> None:
    lines: list[str] = []
    start_slogd({}, lines.append, tmp_path)
    call_post_stop({}, lines.append, tmp_path)
    assert lines == []


def test_program_that_cannot_be_started_is_reported(tmp_path: Path) -> None:
    lines: list[str] = []
    program(tmp_path / "docker" / "slogd", "", 0o644)
    start_slogd({}, lines.append, tmp_path)
    assert lines == [f"{tmp_path}/docker/slogd could not be started: Permission denied"]
