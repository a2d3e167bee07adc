"""The image boots a node: as PID 1 and as a child, as any user, with a read-only root."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Callable

import pytest

from tests.container.bases import ENVIRONMENT
from tests.container.conftest import SESSION, Built
from tests.container.leftovers import LABEL
from tests.functional.boot.wheels import wheel
from tests.functional.node import eventually

HOME = "/home/ma-user"
Start = Callable[..., Any]


POD = "ma-job-fake-worker-0"


@pytest.fixture
def mounts(tmp_path: Path) -> Path:
    """What the platform mounts: the code, the log directory, and a rank table with two devices."""
    code = tmp_path / "modelarts" / "user-job-dir" / "code"
    code.mkdir(parents=True)
    (tmp_path / "modelarts" / "log").mkdir()
    shutil.copy2(Path(__file__).with_name("programs.py"), code / "program.py")
    (tmp_path / "config").mkdir()
    fake = [sys.executable, "-m", "ma_boot", "rank-table", "fake", "--nodes", "1", "--devices-per-node", "2"]
    table = subprocess.run(fake, capture_output=True, text=True, check=True).stdout
    (tmp_path / "config" / "jobstart_hccl.json").write_text(table)
    return tmp_path


@pytest.fixture
def start(engine: Any, good: Built, mounts: Path) -> Iterator[Start]:
    """Starts containers as the platform does, without network; the mounts belong to the container's user."""
    made: list[Any] = []

    def run(
        command: list[str], user: int = 1000, image: str = good.tag, volume: str = "", **more: Any
    ) -> Any:
        for place in [mounts / "modelarts", *(mounts / "modelarts").rglob("*")]:
            os.chown(place, user, 100)
        binds = [
            f"{mounts}/modelarts:{HOME}/modelarts",
            f"{mounts}/config:/user/config:ro",
            *([f"{volume}:{HOME}"] if volume else []),
        ]
        environment = {"RANK_TABLE_FILE": "/user/config", "MA_NUM_GPUS": "2", **more.pop("environment", {})}
        made.append(
            engine.containers.create(
                image,
                command,
                name=f"{SESSION}-{uuid.uuid4().hex[:6]}",
                user=str(user),
                hostname=POD,
                network_mode="none",
                volumes=binds,
                environment=environment,
                **more,
            )
        )
        made[-1].start()
        return made[-1]

    yield run
    for container in made:
        container.remove(force=True, v=True)


@pytest.fixture
def home(engine: Any) -> Iterator[str]:
    """A volume for the home; the engine copies the image's home into it."""
    volume = engine.volumes.create(f"{SESSION}-{uuid.uuid4().hex[:6]}", labels={LABEL: SESSION})
    yield str(volume.name)
    volume.remove(force=True)


def ended(container: Any) -> int:
    """The exit code; an AssertionError with the output if it does not end."""
    import requests

    try:
        return int(container.wait(timeout=60)["StatusCode"])
    except requests.exceptions.ConnectionError:
        raise AssertionError(f"did not end:\n{printed(container)}") from None


def printed(container: Any) -> str:
    return str(container.logs().decode())


@pytest.mark.parametrize(("words", "code"), [(["leave", "7"], 7), (["die", "9"], 137)])
def test_the_exit_code_of_the_training_is_that_of_the_container(
    start: Start, words: list[str], code: int
) -> None:
    assert ended(start(["ma_boot", "program.py", *words])) == code


@pytest.mark.parametrize(("signum", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_pid_1_forwards_the_stop_and_exits_with_its_code(
    start: Start, signum: signal.Signals, code: int
) -> None:
    container = start(["ma_boot", "program.py", "wait"])
    eventually(lambda: "ready" in printed(container), "the training is ready")
    container.kill(signal=int(signum))
    assert ended(container) == code
    assert "asked to stop" in printed(container)


@pytest.mark.parametrize("shell", ["sh", "bash"])
def test_a_stop_passes_a_shell_that_executes_ma_boot(start: Start, shell: str) -> None:
    container = start([shell, "-c", "cd /tmp && exec ma_boot program.py wait"])
    eventually(lambda: "ready" in printed(container), "the training is ready")
    container.stop(timeout=30)
    assert ended(container) == 143
    assert "a stop of the job will not reach ma_boot" not in printed(container)


def test_a_shell_that_keeps_the_stop_is_reported(start: Start) -> None:
    container = start(["sh", "-c", "cd /tmp && ma_boot program.py wait"])
    eventually(lambda: "ready" in printed(container), "the training is ready")
    assert printed(container).count("a stop of the job will not reach ma_boot") == 1
    container.stop(timeout=1)
    assert ended(container) == 137  # as the line says


def test_pid_1_reaps_orphans(start: Start) -> None:
    assert ended(start(["ma_boot", "program.py", "orphans", "20"])) == 0


def test_a_pid_1_that_reaps_nothing_is_noticed(start: Start) -> None:
    """The test above would fail for a ma_boot that leaves zombies."""
    program = f"{HOME}/modelarts/user-job-dir/code/program.py"
    code = f"import subprocess; exit(subprocess.call(['python3', '{program}', 'orphans', '2']))"
    assert ended(start(["python3", "-c", code])) == 9


def test_as_the_child_of_another_pid_1(start: Start) -> None:
    container = start(["sh", "-c", "ma_boot program.py leave 7; exit $(($? + 10))"])
    assert ended(container) == 17


@pytest.mark.parametrize("user", [1000, 4321, 0])
def test_any_user_id_of_the_job_form(start: Start, mounts: Path, user: int) -> None:
    container = start(["ma_boot", "program.py", "leave", "0", "--data_url=obs://a b"], user=user)
    boots_as(user, container, mounts)


@pytest.mark.parametrize("user", [1000, 4321])
def test_a_read_only_root(home: str, start: Start, mounts: Path, user: int) -> None:
    """Only the home and the mounts are writable, not even /tmp."""
    container = start(
        ["ma_boot", "program.py", "leave", "0", "--data_url=obs://a b"],
        user=user,
        volume=home,
        read_only=True,
    )
    boots_as(user, container, mounts)


@pytest.mark.parametrize("user", [1000, 4321])
def test_packages_of_a_job_with_any_user_id(start: Start, mounts: Path, user: int) -> None:
    """The environment belongs to 1000; those of another user go to a place of the job's own."""
    code = mounts / "modelarts" / "user-job-dir" / "code"
    (code / "needs.txt").write_text(f"./{wheel(code)}\npip\n")
    command = ["ma_boot", "--requirements", "needs.txt", "program.py", "load", "grown"]
    container = start(command, user=user, environment={"PIP_NO_INDEX": "1"})
    assert ended(container) == 0, printed(container)
    place = "/home/ma-user/.ma_boot/packages" if user != 1000 else "/home/ma-user/anaconda3/envs/training"
    assert printed(container).count(f"loaded grown from {place}/lib/python3.11/site-packages/grown.py") == 2
    assert "Requirement already satisfied: pip" in printed(container)


def boots_as(user: int, container: Any, mounts: Path) -> None:
    """The job succeeded: its processes ran as the user with all arguments, and its logs are the user's."""
    assert ended(container) == 0, printed(container)
    for rank in (0, 1):
        assert f"rank {rank} of 2 uid {user} argv ['--data_url=obs://a b']" in printed(container)
        (log,) = (mounts / "modelarts" / "log").glob(f"*-proc-rank-{rank}-device-{rank}.txt")
        assert log.stat().st_uid == user


def test_the_environment_of_the_base_image(start: Start, on_conda: Built) -> None:
    container = start(["ma_boot", "program.py", "load", "mindspore"], image=on_conda.tag)
    assert ended(container) == 0, printed(container)
    assert f"{ENVIRONMENT}/bin/python by DEFAULT_CONDA_ENV_NAME=mindspore" in printed(container)
    assert f"loaded mindspore from {ENVIRONMENT}/" in printed(container)


def test_training_code_finds_the_functions_of_moxing(start: Start) -> None:
    container = start(["ma_boot", "program.py", "load", "path_mapping.file"])
    assert ended(container) == 0, printed(container)
    assert printed(container).count("loaded path_mapping.file from /opt/ma_boot/") == 2


def test_the_toolkit_does_not_see_the_training(start: Start) -> None:
    """The training's PYTHONPATH and PYTHONHOME would break the toolkit's python before its first line."""
    container = start(
        ["ma_boot", "--version"], environment={"PYTHONHOME": "/nowhere", "PYTHONPATH": "/nowhere"}
    )
    assert ended(container) == 0
    assert printed(container).startswith("ma_boot")


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ("USER root\nRUN rm -r /opt/ma_boot\nUSER 1000", "expected the toolkit's /opt/ma_boot/bin/python"),
        ("USER root\nRUN rm -r /home/ma-user\nWORKDIR /\nUSER 1000", "expected a home in /home/ma-user"),
    ],
    ids=["toolkit", "home"],
)
def test_the_entry_point_reports_what_is_missing(
    engine: Any, derived: Callable[..., str], lines: str, message: str
) -> None:
    from docker.errors import ContainerError

    image = derived(f"lost-{uuid.uuid4().hex[:6]}", lines)
    with pytest.raises(ContainerError) as raised:
        engine.containers.run(image, ["ma_boot", "--version"], remove=True)
    assert raised.value.exit_status == 78
    assert message in raised.value.stderr.decode()
