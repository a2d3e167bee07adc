"""What old Ascend drivers want to be called in a container: ModelArts' own launcher does so (davincirun)."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Callable, Mapping

TOOLS = Path("/usr/local/Ascend/driver/tools")
POST_STOP_SECONDS = 10.0


def start_slogd(environ: Mapping[str, str], say: Callable[[str], None], tools: Path = TOOLS) -> None:
    """Starts the driver's log daemon where there is one; it is left alone, and goes with the container."""
    daemon = tools / "docker" / "slogd"
    if not daemon.is_file():
        return
    nothing = [(os.POSIX_SPAWN_OPEN, descriptor, os.devnull, os.O_RDWR, 0) for descriptor in (0, 1)]
    try:
        os.posix_spawn(daemon, [str(daemon)], dict(environ), file_actions=nothing, setsid=True)
    except OSError as error:
        say(f"{daemon} could not be started: {error.strerror}")
    else:
        say(f"{daemon} is started")


def call_post_stop(environ: Mapping[str, str], say: Callable[[str], None], tools: Path = TOOLS) -> None:
    """Calls the driver's script for a container's end where there is one, for 10 s at most."""
    script = tools / "docker_stop_post_sys.sh"
    if not script.is_file():
        return
    try:
        done = subprocess.run(
            ["bash", str(script)],
            env=dict(environ),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            timeout=POST_STOP_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        say(f"{script}: {error}")
    else:
        say(f"{script} is called, exit code {done.returncode}")
