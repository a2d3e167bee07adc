"""ma_boot and its peers: how each is asked to run the same command as eight ranks.

Each runs with the options that come nearest to ma_boot's own work: a prefix on the console and a log file for
each rank where it has them (torchrun, mpirun); davincirunsdk and msrun have only log files, honcho only a
prefix, the shell loop neither.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Callable

from launchers.rank import COUNT
from ma_boot.platform.rank_table import fake

PATH = os.pathsep.join([os.path.dirname(sys.executable), "/usr/local/bin", "/usr/bin", "/bin"])
STOP_TIMEOUT_SECONDS = 2
# Instead of 30 s, in which a script may act on the failure of a rank itself.
SCRIPT_GRACE_SECONDS = 1

Command = Sequence[str]


@dataclass(frozen=True)
class Launcher:
    """`program` is looked for on `PATH`; `argv` makes the command line, and files it needs in the directory.

    `grace` is what lies between SIGTERM and SIGKILL in the way it is started here; `source` is the command
    that installs the program.
    """

    name: str
    program: str
    argv: Callable[[Path, Command], list[str]]
    grace: str
    source: str

    @property
    def is_installed(self) -> bool:
        """It is installed."""
        return shutil.which(self.program, path=PATH) is not None


def environ(directory: Path, cards: int = COUNT) -> dict[str, str]:
    """ModelArts' variables for a node whose rank table is complete; the same for all."""
    home, config = directory / "home", directory / "config"
    (home / "modelarts" / "log").mkdir(parents=True)
    config.mkdir()
    table = fake(1, cards, "modelarts-job-bench-worker-{}".format, "10.0.0.{}".format)
    (config / "jobstart_hccl.json").write_text(json.dumps(table))
    return {
        "PATH": PATH,
        "HOME": str(home),
        "TMPDIR": str(directory),
        "MA_HOME": str(home),
        "MA_MOUNT_PATH": str(home / "modelarts"),
        "MA_VJ_NAME": "ma-job-bench",
        "MA_NUM_GPUS": str(cards),
        "MA_CURRENT_INSTANCE_NAME": "modelarts-job-bench-worker-0",
        "RANK_TABLE_FILE": str(config),
    }


def _ma_boot(_: Path, command: Command) -> list[str]:
    return [sys.executable, "-m", "ma_boot", "--stop-timeout", str(STOP_TIMEOUT_SECONDS), "--", *command]


def _ma_boot_script(_: Path, command: Command) -> list[str]:
    """ma_boot before the shell loop: it finds the ranks by itself."""
    loop = f'for ((r = 0; r < {COUNT}; r++)); do RANK_ID=$r DEVICE_ID=$r "$@" & done; wait'
    options = ["--stop-timeout", str(STOP_TIMEOUT_SECONDS), "--per-node", "--rendezvous", "rank-table", "--"]
    grace = f"MABOOT_SCRIPT_RANK_GRACE={SCRIPT_GRACE_SECONDS}"
    return ["env", grace, sys.executable, "-m", "ma_boot", *options, "bash", "-c", loop, "bash", *command]


def _shell_loop(_: Path, command: Command) -> list[str]:
    loop = f'for ((r = 0; r < {COUNT}; r++)); do RANK_ID=$r "$@" & done; wait'
    return ["bash", "-c", loop, "bash", *command]


def _davincirun(_: Path, command: Command) -> list[str]:
    return ["davincirun", *command]


def _torchrun(directory: Path, command: Command) -> list[str]:
    options = ["--standalone", f"--nproc-per-node={COUNT}", "--tee=3", f"--log-dir={directory}/logs"]
    return ["torchrun", *options, "--no-python", *command]


def _msrun(directory: Path, command: Command) -> list[str]:
    numbers = [f"--worker_num={COUNT}", f"--local_worker_num={COUNT}"]
    named = ["python" if word == sys.executable else word for word in command]  # the name that it knows
    return ["msrun", *numbers, "--join=True", f"--log_dir={directory}/logs", *named]


def _mpirun(directory: Path, command: Command) -> list[str]:
    logs = ["--tag-output", "--output-filename", str(directory / "logs")]
    return ["mpirun", "--allow-run-as-root", "--oversubscribe", "-np", str(COUNT), *logs, *command]


def _honcho(directory: Path, command: Command) -> list[str]:
    procfile = directory / "Procfile"
    words = " ".join(map(shlex.quote, command))
    procfile.write_text("".join(f"r{rank}: RANK_ID={rank} exec {words}\n" for rank in range(COUNT)))
    return ["honcho", "-f", str(procfile), "start"]


LAUNCHERS = (
    Launcher("ma_boot", sys.executable, _ma_boot, f"{STOP_TIMEOUT_SECONDS} s, given", "`make bench`"),
    Launcher(
        "ma_boot, script", sys.executable, _ma_boot_script, f"{STOP_TIMEOUT_SECONDS} s, given", "`make bench`"
    ),
    Launcher("shell loop", "bash", _shell_loop, "none", "`apt-get install bash`"),
    Launcher("davincirunsdk", "davincirun", _davincirun, "15 s, fixed", "`make bench`"),
    Launcher("torchrun", "torchrun", _torchrun, "30 s, default", "`make bench-large`"),
    Launcher("msrun", "msrun", _msrun, "none", "`make bench-large`"),
    Launcher("mpirun", "mpirun", _mpirun, "1 s, default", "`apt-get install openmpi-bin`"),
    Launcher("honcho", "honcho", _honcho, "5 s after the first end", "`make bench`"),
)
