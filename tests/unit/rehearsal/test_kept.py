"""The rehearsals on this machine: found by their marks, and removed when they are old."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from ma_boot.cli.app import main
from ma_boot.desk.rehearsal.kept import MARK, find_page, kept_in, prune, remove, sandbox
from ma_boot.errors import ConfigError

NAMES = [f"ma-job-{number:08x}" for number in range(25)]


def rehearsal(directory: Path, name: str, began: float) -> Path:
    """A directory as a rehearsal leaves it."""
    root = directory / name
    (root / "log").mkdir(parents=True)
    (root / "node-0").mkdir()
    (root / "node-0" / "big").write_bytes(bytes(100_000))
    (root / "report.html").write_text("<!doctype html>")
    mark = {"rehearsal": name, "command": f"ma_boot --local {name}", "began": began}
    (root / MARK).write_text(json.dumps(mark))
    return root


def names_in(directory: Path) -> list[str]:
    return sorted(os.listdir(directory))


RUNS = (
    "import sys; from pathlib import Path; from ma_boot.desk.rehearsal.kept import sandbox\n"
    "with sandbox(Path(sys.argv[1]), 'c', Path('none')): print('runs', flush=True); sys.stdin.read()"
)


def test_git_ignores_the_directory_of_rehearsals(tmp_path: Path) -> None:
    subprocess.run(["git", "init", "-q"], cwd=tmp_path, check=True)
    kept = tmp_path / "kept"
    with sandbox(kept / NAMES[0], "c", kept / NAMES[0] / MARK):
        pass
    status = ["git", "status", "--porcelain", "--untracked-files=all"]
    assert subprocess.run(status, cwd=tmp_path, capture_output=True, check=True).stdout == b""
    with sandbox(tmp_path / "gone" / NAMES[0], "c", tmp_path / "none"):
        pass
    assert not (tmp_path / "gone").exists()


def test_own_directory_of_rehearsals_gets_no_gitignore(tmp_path: Path) -> None:
    with sandbox(tmp_path / NAMES[0], "c", tmp_path / "none"):
        assert names_in(tmp_path) == [NAMES[0]]


def test_newest_rehearsal_comes_first(tmp_path: Path) -> None:
    for name, began in zip(NAMES, (10.0, 30.0, 20.0)):
        rehearsal(tmp_path, name, began)
    rehearsals = kept_in(tmp_path)
    assert [kept.path.name for kept in rehearsals] == [NAMES[1], NAMES[2], NAMES[0]]
    assert {kept.is_running for kept in rehearsals} == {False}
    assert rehearsals[0].page == tmp_path / NAMES[1] / "report.html"
    assert kept_in(tmp_path / "none") == []


@pytest.mark.invariant("Running rehearsals and foreign files are never removed")
def test_foreign_directories_are_neither_found_nor_removed(tmp_path: Path) -> None:
    ours = rehearsal(tmp_path, NAMES[0], 1.0)
    rehearsal(tmp_path, NAMES[1], 1.0).rename(tmp_path / "results")
    (tmp_path / NAMES[2]).mkdir()  # no mark
    (tmp_path / NAMES[2] / "precious").write_text("x")
    rehearsal(tmp_path, NAMES[3], 1.0).rename(tmp_path / NAMES[4])  # the mark of another one
    elsewhere = rehearsal(tmp_path / "elsewhere", NAMES[5], 1.0)
    (tmp_path / NAMES[5]).symlink_to(elsewhere)
    (rehearsal(tmp_path, NAMES[6], 1.0) / MARK).write_text("{")
    linked = rehearsal(tmp_path, NAMES[7], 1.0) / MARK
    linked.unlink()
    linked.symlink_to(ours / MARK)
    before = set(names_in(tmp_path)) - {NAMES[0]}
    assert [kept.path.name for kept in kept_in(tmp_path)] == [NAMES[0]]
    assert prune(tmp_path, 0) == (1, [])
    assert set(names_in(tmp_path)) == before
    assert (elsewhere / "node-0" / "big").exists()


@pytest.mark.invariant("Running rehearsals and foreign files are never removed")
def test_running_rehearsal_is_removed_only_after_its_process_has_ended(tmp_path: Path) -> None:
    running = tmp_path / "ma-job-ffffffff"
    argv = [sys.executable, "-c", RUNS, str(running)]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        for number, name in enumerate(NAMES[:3]):
            rehearsal(tmp_path, name, 2e9 + number)
        (kept,) = [kept for kept in kept_in(tmp_path) if kept.path == running]
        assert kept.is_running
        with pytest.raises(ConfigError, match="is running"):
            remove(kept)
        assert prune(tmp_path, 1) == (2, [])
        assert names_in(tmp_path) == [NAMES[2], running.name]
        process.kill()
    assert prune(tmp_path, 1) == (1, [])
    assert names_in(tmp_path) == [NAMES[2]]


def test_a_link_in_a_rehearsal_leads_nowhere(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "precious").write_text("x")
    root = rehearsal(tmp_path / "jobs", NAMES[0], 1.0)
    (root / "link").symlink_to(outside)
    (root / "node-0" / "link").symlink_to(outside)
    assert prune(tmp_path / "jobs", 0) == (1, [])
    assert (outside / "precious").exists()


def test_name_may_be_shortened_and_must_be_unique(tmp_path: Path) -> None:
    for name in ("ma-job-0000aa01", "ma-job-0000aa02"):
        rehearsal(tmp_path, name, 1.0)
    assert find_page(tmp_path, "aa01") == tmp_path / "ma-job-0000aa01" / "report.html"
    for name, found in (("aa", "ma-job-0000aa0[12], ma-job-0000aa0[12]"), ("x", "none")):
        with pytest.raises(ConfigError, match=f"with {name} in its name, found {found}"):
            find_page(tmp_path, name)


def test_the_mark_is_there_after_the_run(tmp_path: Path) -> None:
    root = tmp_path / NAMES[0]
    with sandbox(root, "ma_boot --local x", root / "events"):
        assert kept_in(tmp_path)[0].is_running
        (root / "events").touch()
    (kept,) = kept_in(tmp_path)
    assert (kept.is_running, kept.page) == (False, None)
    assert json.loads((root / MARK).read_text())["command"] == "ma_boot --local x"


class TestOpen:
    """`ma_boot rehearsal open`."""

    def test_open_prints_the_page_of_the_newest(
        self, tmp_path: Path, capfd: pytest.CaptureFixture[str]
    ) -> None:
        for number, name in enumerate(NAMES[:3]):
            rehearsal(tmp_path, name, 1e9 + number)
        (tmp_path / NAMES[2] / "report.html").unlink()
        assert main(["rehearsal", "open", "--rehearsal-dir", str(tmp_path)], {}) == 0
        assert capfd.readouterr().out == f"file://{tmp_path}/{NAMES[1]}/report.html\n"

    def test_open_shows_the_page_in_the_browser(self, tmp_path: Path) -> None:
        root = rehearsal(tmp_path, NAMES[0], 1.0)
        browser = tmp_path / "browser"
        browser.write_text(f'#!/bin/sh\necho "$1" > {tmp_path}/opened\n')
        browser.chmod(0o755)
        variables = {**os.environ, "BROWSER": f"{browser} %s"}
        words = ["rehearsal", "open", "0000", "--rehearsal-dir", str(tmp_path)]
        subprocess.run([sys.executable, "-m", "ma_boot", *words], env=variables, check=True)
        assert (tmp_path / "opened").read_text() == f"file://{root}/report.html\n"

    def test_missing_page_is_an_error(self, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
        assert main(["rehearsal", "open", "--rehearsal-dir", str(tmp_path)], {}) == 78
        assert "no page of a rehearsal" in capfd.readouterr().err
