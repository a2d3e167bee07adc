"""Last lines of a failed node: the cause once, with its place and what to do."""

from __future__ import annotations

import json
import re
import socket
import sys
from pathlib import Path

import pytest

from tests.functional.node import Node
from tests.functional.rehearsal.jobs import rehearse


def last_line(output: str) -> str:
    return [line for line in output.splitlines() if line.startswith("[ma_boot]")][-1]


def test_cause_is_in_one_line_with_its_place(node: Node) -> None:
    (node.home / "train.py").write_text("raise ValueError('no layer 17')\n")
    ended = node.boot("--per-node", "python", "train.py")
    assert re.fullmatch(
        r"\[ma_boot\] exit code 1: command ended with exit code 1 after \S+ s \(exit code of the training process\): "
        r"ValueError: no layer 17, at home/train.py:1",
        last_line(ended.output),
    ), ended.output
    assert ended.output.count("ValueError: no layer 17, at") == 1


def test_code_in_a_later_line_of_an_exception_is_in_the_last_line(node: Node) -> None:
    text = (
        "HCCL function error: "
        + "x" * 300
        + "\\n[ERROR] call hccl api failed.\\n\\n[PID: 7] 2026-01-02-03:04:29.575 A(EI0019): no port"
    )
    (node.home / "train.py").write_text(f"raise RuntimeError('{text}')\n")
    assert "... A(EI0019): no port, at home/train.py:1" in last_line(
        node.boot("--per-node", "python", "train.py").output
    )


def test_missing_module_names_the_python_and_what_selected_it(node: Node) -> None:
    (node.home / "train.py").write_text("import no_such_module\n")
    ended = node.boot("--python", sys.executable, "--per-node", "python", "train.py")
    assert (
        f". What to do: module no_such_module is missing in {sys.executable} by --python: install it there"
        in last_line(ended.output)
    ), ended.output


@pytest.mark.parametrize("how", ["a socket of Python", "the message"])
def test_holder_of_a_port_in_use_is_named(node: Node, how: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as held:
        port = held.getsockname()[1]
        source = {
            "a socket of Python": f"import socket\nsocket.create_server(('127.0.0.1', {port}))\n",
            "the message": f"raise RuntimeError('EADDRINUSE: cannot listen, port: {port}, useIpv6: false')\n",
        }
        (node.home / "train.py").write_text(source[how])
        line = last_line(node.boot("--per-node", "python", "train.py").output)
    assert f". What to do: port {port} is held by " in line
    assert line.endswith(": end it, or choose another port")


def test_free_port_has_no_holder(node: Node) -> None:
    (node.home / "train.py").write_text("raise OSError('address already in use: port: 1')\n")
    assert "is held by" not in node.boot("--per-node", "python", "train.py").output


def test_rehearsal_shows_the_paths_of_the_job(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("open(__file__ + '.missing')\n")
    ended = rehearse(tmp_path, "train.py")
    code = re.escape(f"/home/ma-user/modelarts/user-job-dir/{tmp_path.name}/train.py")
    assert re.search(rf'File "{code}", line 1, in <module>', ended.output), ended.output
    assert re.search(
        rf"\[ma_boot\] exit code 1: node 0, rank 0: FileNotFoundError: \S+ \S+ \S+ \S+ \S+ \S+ \S+ '{code}.missing'",
        ended.output,
    )
    failure = next(tmp_path.glob("**/*-failure.json"))
    assert json.loads(failure.read_text())["cause"]["words"].endswith("train.py.missing'")
