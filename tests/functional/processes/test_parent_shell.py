"""A shell above ma_boot that keeps the platform's stop signal."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.functional.node import RANK, Booting, Node

NOTE = "a stop of the job will not reach ma_boot"
BOOT = f"{sys.executable} -m ma_boot {RANK} print:hi"


def below(node: Node, *shell: str) -> str:
    """The output of a boot by a shell."""
    process = subprocess.Popen(
        shell, cwd=node.home, env=node.environ(), stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    ended = Booting(node, process).end()
    assert ended.code == 0, ended.output
    assert "hi" in ended.output
    return ended.output


@pytest.mark.invariant("The boot command of an image is this toolkit's, and stop signals reach it")
@pytest.mark.parametrize(
    "shell",
    [
        ["sh", "-c", f"cd . && {BOOT}; true"],
        ["bash", "-c", f"{BOOT}; true"],
        ["bash", "-ec", f"{BOOT} | cat"],
    ],
    ids=["sh", "bash", "pipe"],
)
def test_a_shell_that_waits_is_reported_once_with_the_remedy(node: Node, shell: list[str]) -> None:
    output = below(node, *shell)
    assert output.count(NOTE) == 1
    assert "let `exec ma_boot ...` be its last command" in output


def test_waiting_script_is_reported_without_secrets(node: Node, tmp_path: Path) -> None:
    node.variables["OBS_SECRET_ACCESS_KEY"] = "planted-secret"
    script = tmp_path / "boot.sh"
    script.write_text(f"cd .\n{BOOT}\ntrue\n")
    output = below(node, "bash", str(script), "planted-secret")
    assert NOTE in output
    assert "planted" not in output


@pytest.mark.parametrize(
    "shell",
    [
        ["sh", "-c", f"cd . && exec {BOOT}"],
        ["bash", "-c", f"cd . && exec {BOOT}"],
        ["sh", "-c", f"trap : TERM; {BOOT}; true"],
    ],
    ids=["sh", "bash", "trap"],
)
def test_shell_that_execs_or_handles_sigterm_is_not_reported(node: Node, shell: list[str]) -> None:
    assert NOTE not in below(node, *shell)


def test_no_warning_outside_of_the_platform(node: Node) -> None:
    node.variables["MA_VJ_NAME"] = ""
    assert NOTE not in below(node, "sh", "-c", f"cd . && {BOOT}; true")
