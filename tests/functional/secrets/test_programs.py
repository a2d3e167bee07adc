"""The programs that look at a training have its environment, and no secret; nothing is inherited from ma_boot."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.functional.node import RANK, Node

SECRETS = {
    "OBS_ACCESS_KEY_ID": "planted-AK",
    "OBS_SECRET_ACCESS_KEY": "planted-SK",
    "MABOOT_JOB_TOKEN": "planted-token-0815",
}
TOOL = """#!/bin/sh
/usr/bin/env > "$PLACE/env-of-${0##*/}"
exit 1
"""


def variables(text: str) -> dict[str, str]:
    return dict(line.split("=", 1) for line in text.splitlines() if "=" in line)


@pytest.mark.invariant("Tools and child processes receive no secret by default")
def test_tools_get_the_trainings_environment_without_secrets(node: Node) -> None:
    """Those that sample the cards, and that take the stacks of a hang; they are on the training's PATH."""
    tools = node.root / "tools"
    tools.mkdir()
    for name in ("py-spy", "npu-smi"):
        (tools / name).write_text(TOOL)
        (tools / name).chmod(0o755)
    (node.home / "env.sh").write_text(
        f'export PATH="{tools}:$PATH" OF_THE_TRAINING=1 SOURCED_TOKEN=planted\n'
    )
    (node.home / "train.py").write_text(
        "import os, time; print(os.environ['SOURCED_TOKEN'][:2]); time.sleep(600)"
    )
    node.variables.update(SECRETS, PLACE=str(node.root), HCCL_CONNECT_TIMEOUT="77")
    options = ["--metrics", "1", "--hang-timeout", "1", "--hang-action", "stop", "--stop-timeout", "1"]
    ended = node.boot(*options, "--source", "env.sh", "train.py")
    assert ended.code == 124, ended.output
    for name in ("py-spy", "npu-smi"):
        environ = variables((node.root / f"env-of-{name}").read_text())
        assert environ["OF_THE_TRAINING"] == "1"
        assert environ["HCCL_CONNECT_TIMEOUT"] == "77"
        assert environ["RANK_ID"] in {"0", "1"}
        assert [value for value in environ.values() if "planted" in value] == []


def test_the_guard_has_no_secret(node: Node) -> None:
    node.variables.update(SECRETS)
    running = node.start(RANK, "print:here", "sleep")
    running.until("here")
    children = Path(f"/proc/{running.process.pid}/task").glob("*/children")
    pids = [pid for file in children for pid in file.read_text().split()]
    (guard,) = [pid for pid in pids if "orphan_guard" in Path(f"/proc/{pid}/cmdline").read_text()]
    environ = variables(Path(f"/proc/{guard}/environ").read_text().replace("\0", "\n"))
    running.signal()
    assert running.end().code == 143
    assert environ["PATH"] == node.environ()["PATH"]
    assert [value for value in environ.values() if "planted" in value] == []


def test_the_doctor_gives_its_tools_no_secret(tmp_path: Path) -> None:
    (tmp_path / "npu-smi").write_text(TOOL)
    (tmp_path / "npu-smi").chmod(0o755)
    environ = {**SECRETS, "PATH": f"{tmp_path}:/usr/bin:/bin", "HOME": str(tmp_path), "PLACE": str(tmp_path)}
    argv = [sys.executable, "-m", "ma_boot", "doctor"]
    subprocess.run(argv, cwd=tmp_path, env=environ, capture_output=True, timeout=100, check=False)
    environ_of_tool = variables((tmp_path / "env-of-npu-smi").read_text())
    assert environ_of_tool["HOME"] == str(tmp_path)
    assert [value for value in environ_of_tool.values() if "planted" in value] == []


@pytest.mark.invariant("Tools and child processes receive no secret by default")
def test_children_inherit_no_secret_by_default_though_the_kernel_shows_it(tmp_path: Path) -> None:
    """Such as the worker processes of transfers; docs/supervision.md says what other processes can read."""
    program = (
        "import os, subprocess; from ma_boot.cli.app import main; main(['rehearsal', 'list']); "
        "print(subprocess.run(['/usr/bin/env'], capture_output=True, text=True).stdout); "
        "print('KERNEL', open('/proc/self/environ').read().replace(chr(0), ' '))"
    )
    environ = {**os.environ, **SECRETS, "HOME": str(tmp_path), "MAX_TOKENS": "4096"}
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, env=environ, capture_output=True, text=True, check=True
    )
    inherited, kernel = done.stdout.split("KERNEL")
    assert "MAX_TOKENS=4096" in inherited
    assert "planted" not in inherited
    assert "MABOOT_JOB_TOKEN=planted" in kernel
