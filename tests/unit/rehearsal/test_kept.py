"""The rehearsals on this machine: what is ours is listed and removed, and nothing else."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from ma_boot.cli.app import main
from ma_boot.desk.rehearsal.kept import MARK, kept_in, named, pruned, remove, sandbox
from ma_boot.errors import ConfigError

NAMES = [f"ma-job-{number:08x}" for number in range(25)]


def rehearsal(directory: Path, name: str, began: float, code: int | None = 0) -> Path:
    """A directory as a rehearsal leaves it."""
    root = directory / name
    (root / "log").mkdir(parents=True)
    (root / "node-0").mkdir()
    (root / "node-0" / "big").write_bytes(bytes(100_000))
    events: list[dict[str, Any]] = [{"kind": "rehearsal"}]
    if code is not None:
        events.append({"kind": "job-end", "exit_code": code, "cause": "why\nmore"})
    (root / "log" / "x-events.jsonl").write_text("".join(json.dumps(event) + "\n" for event in events))
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


def test_the_newest_comes_first_with_its_end(tmp_path: Path) -> None:
    rehearsal(tmp_path, NAMES[0], 10.0, code=3)
    rehearsal(tmp_path, NAMES[1], 30.0, code=None)
    rehearsal(tmp_path, NAMES[2], 20.0)
    newest, *_, oldest = rehearsals = kept_in(tmp_path)
    assert [(kept.name, kept.exit_code, kept.running) for kept in rehearsals] == [
        (NAMES[1], None, False), (NAMES[2], 0, False), (NAMES[0], 3, False),
    ]  # fmt: skip
    assert (oldest.cause, oldest.command) == ("why", f"ma_boot --local {NAMES[0]}")
    assert newest.page == tmp_path / NAMES[1] / "report.html"
    assert newest.bytes() >= 100_000
    assert kept_in(tmp_path / "none") == []


@pytest.mark.invariant("Running rehearsals and foreign files are never removed")
def test_foreign_directories_are_neither_listed_nor_removed(tmp_path: Path) -> None:
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
    assert [kept.name for kept in kept_in(tmp_path)] == [NAMES[0]]
    assert pruned(tmp_path, 0) == (1, [])
    assert set(names_in(tmp_path)) == before
    assert (elsewhere / "node-0" / "big").exists()


@pytest.mark.invariant("Running rehearsals and foreign files are never removed")
def test_one_that_runs_stays_until_its_process_ends_however_that_is(tmp_path: Path) -> None:
    running = tmp_path / "ma-job-ffffffff"
    argv = [sys.executable, "-c", RUNS, str(running)]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        for number, name in enumerate(NAMES[:3]):
            rehearsal(tmp_path, name, 2e9 + number)
        (kept,) = [kept for kept in kept_in(tmp_path) if kept.name == running.name]
        assert (kept.running, kept.exit_code) == (True, None)
        with pytest.raises(ConfigError, match="is running"):
            remove(kept)
        assert pruned(tmp_path, 1) == (2, [])
        assert names_in(tmp_path) == [NAMES[2], running.name]
        process.kill()
    assert pruned(tmp_path, 1) == (1, [])
    assert names_in(tmp_path) == [NAMES[2]]


def test_a_link_in_a_rehearsal_leads_nowhere(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "precious").write_text("x")
    root = rehearsal(tmp_path / "jobs", NAMES[0], 1.0)
    (root / "link").symlink_to(outside)
    (root / "node-0" / "link").symlink_to(outside)
    assert pruned(tmp_path / "jobs", 0) == (1, [])
    assert (outside / "precious").exists()


def test_a_name_may_be_shortened_and_must_be_unique(tmp_path: Path) -> None:
    for name in ("ma-job-0000aa01", "ma-job-0000aa02"):
        rehearsal(tmp_path, name, 1.0)
    assert [kept.name for kept in named(tmp_path, ["aa01"])] == ["ma-job-0000aa01"]
    with pytest.raises(ConfigError, match=r"aa: several have that(.|\n)*x: none"):
        named(tmp_path, ["aa", "x"])


def test_the_mark_is_there_after_the_run(tmp_path: Path) -> None:
    root = tmp_path / NAMES[0]
    with sandbox(root, "ma_boot --local x", root / "events"):
        assert kept_in(tmp_path)[0].running
        (root / "events").touch()
    (kept,) = kept_in(tmp_path)
    assert (kept.running, kept.command, kept.page) == (False, "ma_boot --local x", None)


class TestCommands:
    """`ma_boot rehearsal list`, `open` and `clean`."""

    def test_list_open_and_clean(self, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
        for number, name in enumerate(NAMES[:3]):
            rehearsal(tmp_path, name, 1e9 + number, code=number)
        where = ["--rehearsal-dir", str(tmp_path)]
        assert main(["rehearsal", "list", *where], {}) == 0
        lines = capfd.readouterr().out.splitlines()
        assert [line.split()[0] for line in lines] == NAMES[2::-1]
        assert "exit code 2" in lines[0]
        assert lines[0].endswith(f"ma_boot --local {NAMES[2]}")
        assert main(["rehearsal", "list", "--json", *where], {}) == 0
        assert [kept["exit_code"] for kept in json.loads(capfd.readouterr().out)] == [2, 1, 0]
        assert main(["rehearsal", "open", *where], {}) == 0
        assert capfd.readouterr().out == f"{tmp_path}/{NAMES[2]}/report.html\n"
        assert main(["rehearsal", "clean", NAMES[1], *where], {}) == 0
        assert names_in(tmp_path) == [NAMES[0], NAMES[2]]
        assert main(["rehearsal", "clean", "--keep", "1", *where], {}) == 0
        assert names_in(tmp_path) == [NAMES[2]]

    def test_open_shows_the_page_in_the_browser(self, tmp_path: Path) -> None:
        root = rehearsal(tmp_path, NAMES[0], 1.0)
        browser = tmp_path / "browser"
        browser.write_text(f'#!/bin/sh\necho "$1" > {tmp_path}/opened\n')
        browser.chmod(0o755)
        variables = {**os.environ, "BROWSER": f"{browser} %s"}
        words = ["rehearsal", "open", "0000", "--rehearsal-dir", str(tmp_path)]
        subprocess.run([sys.executable, "-m", "ma_boot", *words], env=variables, check=True)
        assert (tmp_path / "opened").read_text() == f"file://{root}/report.html\n"

    @pytest.mark.parametrize("words", [["clean"], ["clean", "x", "--keep", "1"], ["clean", "--keep", "-1"]])
    def test_clean_says_what_it_needs(self, tmp_path: Path, words: list[str]) -> None:
        rehearsal(tmp_path, NAMES[0], 1.0)
        assert main(["rehearsal", *words, "--rehearsal-dir", str(tmp_path)], {}) == 64
        assert names_in(tmp_path) == [NAMES[0]]

    def test_missing_rehearsal_to_open_is_reported(
        self, tmp_path: Path, capfd: pytest.CaptureFixture[str]
    ) -> None:
        assert main(["rehearsal", "open", "--rehearsal-dir", str(tmp_path)], {}) == 78
        assert "no page of a rehearsal" in capfd.readouterr().err
        assert main(["rehearsal", "list", "--rehearsal-dir", str(tmp_path)], {}) == 0
        assert capfd.readouterr().out == f"no rehearsals in {tmp_path}\n"
