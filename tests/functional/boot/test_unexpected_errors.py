"""Unexpected errors in any phase: outputs are uploaded, no process survives, one report is printed."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from ma_boot.errors import OutputLost
from ma_boot.node.transfers.mapping import NodeTransfers
from ma_boot.node.transfers.uploads import UploadTerms, upload_outputs, uploading_periodically
from ma_boot.processes.signals import SignalInbox
from ma_boot.report.console import Console
from ma_boot.report.journal import Journal
from path_mapping.mapping.routes import ObsUrl, PathMapping, Route
from path_mapping.mapping.selection import Shard
from path_mapping.stores.open_store import open_store
from path_mapping.transfer.transfer import Transferred, upload
from tests.functional.node import RANK, Ended, Node, eventually

TOO_LARGE = 1 << 46  # bytes: no thread gets a stack of this size, whoever the user is


def with_output(node: Node) -> list[str]:
    """The options for an output that exists already."""
    (node.home / "out").mkdir()
    (node.home / "out" / "kept.txt").write_text("kept")
    return node.mapping({}, {"out": "obs://bucket/out/"})


def assert_internal_error(node: Node, ended: Ended) -> None:
    """The output is uploaded and the error reported once, as the cause."""
    assert ended.code == 70, ended.output
    assert (node.obs / "bucket" / "out" / "kept.txt").read_text() == "kept", ended.output
    assert ended.output.count("Traceback") == 1
    assert "[ma_boot] exit code 70: internal error of ma_boot" in ended.output


class TestPhases:
    """Exceptions without a check of their own."""

    def test_unreadable_job_directory_is_reported(self, node: Node) -> None:
        (node.home / "job").mkdir(mode=0)
        node.variables["MA_JOB_DIR"] = str(node.home / "job")
        plain = ["setpriv", "--bounding-set=-dac_override,-dac_read_search"] if os.geteuid() == 0 else []
        ended = node.start_by(plain, *with_output(node), "not-here.py").end()
        assert_internal_error(node, ended)
        assert "PermissionError" in ended.output
        assert "Permission denied" in ended.output

    def test_missing_directory_for_temporary_files_is_reported(self, node: Node, bubblewrap: None) -> None:
        (node.home / "variables.sh").write_text("export SET=1\n")
        node.log_dir.mkdir(parents=True)
        writable = [word for place in (node.log_dir, node.obs) for word in ("--bind", place, place)]
        root = ["bwrap", "--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc", *map(str, writable)]
        ended = node.start_by(root, *with_output(node), "--source", "variables.sh", RANK).end()
        assert_internal_error(node, ended)
        assert "No usable temporary directory" in ended.output

    def test_job_without_threads_ends_with_one_report(self, node: Node) -> None:
        (node.obs / "bucket" / "in").mkdir(parents=True)
        options = node.mapping({"in": "obs://bucket/in/"}, {"out": "obs://bucket/out/"})
        ended = node.start_by(["prlimit", f"--stack={TOO_LARGE}"], *options, RANK).end()
        assert ended.code == 73, ended.output
        assert (
            f"[ma_boot] exit code 73: cannot start a thread: ulimit -s is {TOO_LARGE >> 10}" in ended.output
        )
        assert "Traceback" not in ended.output
        assert "[ma_boot] not every output was uploaded" in ended.output

    def test_a_job_without_transfers_needs_no_thread(self, node: Node) -> None:
        limited = ["prlimit", f"--stack={TOO_LARGE}"]
        options = ("--hang-timeout", "0.5", "--hang-action", "stop")
        ended = node.start_by(limited, *options, RANK, "print:hello", "sleep").end()
        assert ended.code == 124, ended.output
        assert "[rank 0] hello\n" in ended.output
        assert "no stacks: can't start new thread" in ended.output
        assert "no page was made: RuntimeError: can't start new thread" in ended.output


MANY_DESCRIPTORS = """
import os, resource, sys
resource.setrlimit(resource.RLIMIT_NOFILE, (4096, 4096))
for number in range(3, 1100):
    os.dup2(0, number, inheritable=True)
os.set_blocking(1, False)
os.execv(sys.argv[1], sys.argv[1:])
"""


def test_descriptors_above_1023_are_supported(node: Node) -> None:
    (node.home / "variables.sh").write_text("export SET=1\n")
    prefix = [sys.executable, "-c", MANY_DESCRIPTORS]
    options = (*with_output(node), "--source", "variables.sh", "--hang-timeout", "30")
    running = node.start_by(prefix, *options, RANK, "print:hello", "await:go")
    eventually(lambda: any(event["kind"] == "first-output" for event in node.events()), "the output")
    (node.home / "go").write_text("")
    ended = running.end()
    assert ended.code == 0, ended.output
    assert "[rank 0] hello\n" in ended.output
    assert (node.obs / "bucket" / "out" / "kept.txt").exists()


class TestNotUtf8:
    """Names with bytes that are not UTF-8, as Latin-1 archives have them."""

    @pytest.mark.parametrize("code", [0, 3])
    def test_names_that_are_not_utf_8_are_supported(self, tmp_path: Path, code: int) -> None:
        node = Node(tmp_path / os.fsdecode(b"caf\xe9"))
        node.complete_table()
        script = node.home / os.fsdecode(b"tr\xe4in.py")
        script.write_text(f"import sys; print('hello'); sys.exit({code})")
        ended = node.boot(*with_output(node), script.name, os.fsdecode(b"\xff"))
        assert ended.code == code, ended.output
        assert "Traceback" not in ended.output
        assert "events are no longer written" not in ended.output
        assert "no page was made" not in ended.output
        assert [event["exit_code"] for event in node.events() if event["kind"] == "end"] == [code]
        failures = [json.loads(file.read_text()) for file in node.log_dir.glob("*-failure.json")]
        assert [failure["exit_code"] for failure in failures] == ([code] if code else [])
        assert (node.obs / "bucket" / "out" / "kept.txt").exists()


class TestHelpersOfTheRun:
    """Stacks, events and periodic uploads never end a training."""

    def test_broken_py_spy_does_not_end_the_training(self, node: Node) -> None:
        spy = py_spy(node, b"#!/of/an/environment/that/has/moved/python\n")
        running = node.start(*with_output(node), "--hang-timeout", "0.5", RANK, "await:go")
        eventually(lambda: any(event["kind"] == "hang" for event in node.events()), "the report of the hang")
        (node.home / "go").write_text("")
        ended = running.end()
        assert ended.code == 0, ended.output
        assert f"no stacks: {spy} cannot be executed: No such file or directory" in ended.output
        assert (node.obs / "bucket" / "out" / "kept.txt").exists()

    def test_broken_py_spy_does_not_hide_a_hang(self, node: Node) -> None:
        py_spy(node, b"\x7fELF of another machine")
        ended = node.boot("--hang-timeout", "0.5", "--hang-action", "stop", RANK, "sleep")
        assert ended.code == 124, ended.output
        assert "cannot be executed: Exec format error" in ended.output

    def test_error_in_a_periodic_upload_does_not_end_the_training(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        failures = iter([broken, broken])

        def first_broken(*arguments: Any, **options: Any) -> Transferred:
            next(failures, lambda: None)()
            return upload(*arguments, **options)

        monkeypatch.setattr("path_mapping.transfer.periodic.upload", first_broken)
        output, transfers = tmp_path / "output", one_output(tmp_path)
        (tmp_path / "out").mkdir()
        (tmp_path / "out" / "step").write_text("1")
        with output.open("wb") as file, SignalInbox() as inbox, Console(file.fileno()) as console:
            rounds = uploading_periodically(transfers, Journal(console), inbox)
            with rounds:
                eventually((tmp_path / "bucket" / "out" / "step").exists, "a round that uploads")
        failed = "outputs so far: not all uploaded, the next round retries: ZeroDivisionError: broken"
        assert output.read_text().count(failed) == 2, output.read_text()

    def test_error_in_the_last_upload_is_reported(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("path_mapping.transfer.transfer.upload", broken)
        transfers = one_output(tmp_path)
        with (
            (tmp_path / "output").open("wb") as file,
            SignalInbox() as inbox,
            Console(file.fileno()) as console,
        ):
            lost = upload_outputs(transfers, Journal(console), inbox, UploadTerms(60, "nothing:"))
        assert isinstance(lost, OutputLost)
        assert "ZeroDivisionError: broken" in str(lost)


def py_spy(node: Node, content: bytes) -> Path:
    """A program of this name and content on the node's PATH."""
    spy = node.root / "bin" / "py-spy"
    spy.parent.mkdir()
    spy.write_bytes(content)
    spy.chmod(0o755)
    node.variables["PATH"] = f"{spy.parent}:{node.environ()['PATH']}"
    return spy


def one_output(directory: Path) -> NodeTransfers:
    """Returns transfers with one output that is uploaded periodically."""
    route = Route("out", ObsUrl.parse("obs://bucket/out/"), interval=0.1)
    store = open_store({}, directory)
    return NodeTransfers(PathMapping((), (route,)), store, directory, Shard())


def broken(*_: object, **__: object) -> None:
    """Raises an exception that is none of a transfer."""
    raise ZeroDivisionError("broken")


@pytest.mark.parametrize("closed", [True, False], ids=["closed", "impossible"])
def test_unreadable_log_directory_is_no_internal_error(node: Node, closed: bool) -> None:
    """A directory of another user, or an impossible name, is a configuration error."""
    (node.home / "theirs").mkdir(mode=0)
    node.variables["MA_LOG_DIR"] = str(node.home / "theirs" / "log") if closed else f"/{'x' * 300}/log"
    plain = ["setpriv", "--bounding-set=-dac_override,-dac_read_search"] if os.geteuid() == 0 else []
    ended = node.start_by(plain, RANK, "print:hi").end()
    assert ended.code == 73, ended.output
    assert "cannot write to the log directory: " in ended.output
    assert "must be able to enter and write it" in ended.output
    assert "Traceback" not in ended.output
