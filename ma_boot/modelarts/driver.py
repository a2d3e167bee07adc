"""Runs the programs that old Ascend drivers need in a container, as ModelArts' launcher (davincirun) does."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Callable, Mapping

from ma_boot.redact import without_secret_variables

TOOLS = Path("/usr/local/Ascend/driver/tools")
POST_STOP_SECONDS = 10.0


def start_slogd(environ: Mapping[str, str], say: Callable[[str], None], tools: Path = TOOLS) -> None:
    """Starts the driver's log daemon if it is installed; it runs until the container ends."""
    daemon = tools / "docker" / "slogd"
    if not daemon.is_file():
        return
    nothing = [(os.POSIX_SPAWN_OPEN, descriptor, os.devnull, os.O_RDWR, 0) for descriptor in (0, 1)]
    try:
        os.posix_spawn(
            daemon, [str(daemon)], without_secret_variables(environ), file_actions=nothing, setsid=True
        )
    except OSError as error:
        say(f"{daemon} could not be started: {error.strerror}")
    else:
        say(f"started {daemon}")


def call_post_stop(environ: Mapping[str, str], say: Callable[[str], None], tools: Path = TOOLS) -> None:
    """Runs the driver's script for the end of a container if it is installed, for at most 10 s."""
    script = tools / "docker_stop_post_sys.sh"
    if not script.is_file():
        return
    try:
        done = subprocess.run(
            ["bash", str(script)],
            env=without_secret_variables(environ),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            timeout=POST_STOP_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        say(f"{script}: {error}")
    else:
        say(f"{script} ended with exit code {done.returncode}")
