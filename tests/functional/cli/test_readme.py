"""Every command of README, tutorial, how-tos and the page on installing, in a shell, as it stands there, from an empty home."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest
import yaml

from ma_boot.desk.rehearsal.obs_server.buckets import Buckets
from ma_boot.desk.rehearsal.obs_server.server import ObsServer
from tests.command_lines import is_boot_command, shell_lines
from tests.conftest import CREDENTIALS, KNOWN
from tests.functional.launchers import page as launchers
from tests.job_api.stand_in import PROJECT, ModelArtsStandIn

ROOT = Path(__file__).parents[3]
CLOUD = "the reader's own; servers of this test take the place of the cloud"
INDEX = "needs a package index; `make release-check` installs the wheel"
# Commands that run elsewhere or nowhere: how each begins, and the reason.
NOT_RUN = {
    "git clone CLONE_URL": "the address is a placeholder",
    "uv tool install": INDEX,
    "pipx install": INDEX,
    "python3 -m venv ~/.ma_boot": INDEX,
    "~/.ma_boot/bin/pip install": INDEX,
    "make rehearse": "trains with MindSpore: tests/functional/frameworks/test_mindspore.py",
    "make resume": "trains with MindSpore: tests/functional/frameworks/test_mindspore.py",
    "make image": "needs a container engine: tests/container/test_build.py",
    "make push": "needs a container engine and a registry: tests/container/test_push.py",
    "export HUAWEICLOUD_SDK_REGION=cn-north-4 OBS_ENDPOINT=": CLOUD,
    "export OBS_ACCESS_KEY_ID=": CLOUD,
    "ma_boot --local --path-mapping mapping.yaml --obs-root obs --fault 'rescheduled": (
        "ends with the code of a training that fails: tests/functional/rehearsal/test_starts.py"
    ),
    "kubectl create": "needs a cluster: tests/functional/job/test_manifest.py checks manifests against its schemas",
}
# Its commands need launchers: tests/functional/launchers runs them with stand-ins, tests/functional/frameworks with real ones.
WITH_LAUNCHERS = "docs/how-to/launchers.md"

TRAIN = """cat > train.py <<'END'
import os
print("rank", os.environ["RANK_ID"], "of", os.environ["RANK_SIZE"])
END
"""
# What the reader of a page has before its first command, made by commands. A mapping on the page goes into mapping.yaml
# before, Python code with a main program into train.py where it stands.
STARTS = {
    "README.md": TRAIN,
    "docs/install.md": "mkdir -p ~/.config/fish/completions",
    "docs/tutorial.md": "ln -s . tutorial",  # its obs/ is that of the server
    "docs/how-to/data-in-obs.md": """cat > train.py <<'END'
import os, pathlib
rank = os.environ["RANK_ID"]
pathlib.Path("out").mkdir(exist_ok=True)
pathlib.Path("out/result.txt").write_text(rank)
print("rank", rank, "has", sorted(os.listdir("data")))
END
mkdir -p obs/my-bucket/data
echo 1 > obs/my-bucket/data/a.tar
echo 2 > obs/my-bucket/data/b.tar
""",
    "docs/how-to/failed-job.md": f"""{TRAIN}
ma_boot --local train.py
ln -s ma_boot-rehearsal/*/node-0/home/ma-user/modelarts/log LOGS
""",
    "docs/how-to/hang.md": TRAIN,
    "docs/how-to/restart.md": f"""cat > save.py <<'END'
import os, pathlib, sys
sys.path.insert(0, "{ROOT}")
from ma_boot.training import checkpoint
step = pathlib.Path("checkpoints", "step-1")
step.mkdir(parents=True, exist_ok=True)
(step / ("rank-" + os.environ["RANK_ID"])).touch()
checkpoint(1)
END
ma_boot --local --obs-root obs --path-mapping mapping.yaml save.py
echo 'import time; time.sleep(3)' > train.py
""",
    "docs/how-to/start-script.md": f"""{TRAIN}
cat > run.sh <<'END'
set -eo pipefail
test -f train.py
echo "dataset $1, devices $2"
END
""",
    "docs/how-to/volcano.md": f"{TRAIN}TUTORIAL_JOB",
}


class Walk(NamedTuple):
    """Output of the commands of a page, and the directory where they ran."""

    output: str
    directory: Path


def pages() -> list[str]:
    """Returns the pages whose commands are run, in English."""
    how_tos = (path for path in (ROOT / "docs/how-to").glob("*.md") if ".zh-CN" not in path.name)
    return [
        "README.md",
        "docs/install.md",
        "docs/tutorial.md",
        *sorted(f"docs/how-to/{path.name}" for path in how_tos),
    ]


def text_of(page: str) -> str:
    return (ROOT / page).read_text()


def is_run(line: str) -> bool:
    return not line.startswith(tuple(NOT_RUN))


def as_typed(line: str) -> str:
    """Returns a command as it stands; a boot command with the variables that make it a rehearsal."""
    if not is_boot_command(line):
        return line
    return f"(export MABOOT_LOCAL=1 MABOOT_OBS_ROOT=obs\n{line}\n)"


def script_of(page: str) -> str:
    """Returns the commands of a page, and before them those that make what its reader has."""
    parts: list[str] = []
    start = STARTS[page]
    if "TUTORIAL_JOB" in start:
        init = next(line for line in shell_lines(text_of("docs/tutorial.md")) if "job init" in line)
        start = start.replace("TUTORIAL_JOB", init)
    for kind, block in re.findall(r"^ *```(\w*)\n(.*?)^ *```$", text_of(page), re.MULTILINE | re.DOTALL):
        if kind == "python" and "import argparse" in block:
            parts.append(f"cat > train.py <<'END_OF_FILE'\n{block}END_OF_FILE")
        elif kind == "yaml" and "{obs:" in block:
            start = f"cat > mapping.yaml <<'END_OF_FILE'\n{block}END_OF_FILE\n{start}"
        elif kind == "sh":
            parts += map(as_typed, filter(is_run, shell_lines(f"```sh\n{block}```")))
    return "\n".join(["set -eE", "trap 'echo \"failed: $BASH_COMMAND\"' ERR", start, *parts])


def walk(page: str, home: Path) -> Walk:
    """Runs the commands of a page, with `ma_boot` as pipx installs it, beside stand-ins for ModelArts and OBS."""
    project = home / "project"
    (project / "obs" / "my-bucket").mkdir(parents=True)
    (home / "bin").mkdir()
    program = home / "bin" / "ma_boot"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m ma_boot "$@"\n')
    program.chmod(0o755)
    bash = shutil.which("bash", path="/usr/bin:/bin") or "bash"
    with (
        ObsServer(Buckets(project / "obs"), home / "parts", KNOWN) as obs,
        ModelArtsStandIn(home / "jobs", {"OBS_ENDPOINT": obs.url, **CREDENTIALS}) as api,
    ):
        environ = {
            "PATH": f"{home / 'bin'}:/usr/bin:/bin",
            "HOME": str(home),
            "NO_PROXY": "127.0.0.1",
            "DOCKER_HOST": "tcp://127.0.0.1:1",  # no engine is asked for the image
            "HUAWEICLOUD_SDK_PROJECT_ID": PROJECT,
            "MODELARTS_ENDPOINT": api.url,
            "MABOOT_INTERVAL": "0.05",
            "OBS_ENDPOINT": obs.url,
            **CREDENTIALS,
        }
        done = subprocess.run(
            [bash, "-c", script_of(page)], cwd=project, env=environ, stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False, text=True,
        )  # fmt: skip
    assert done.returncode == 0, done.stdout
    return Walk(done.stdout, project)


@pytest.mark.timeout(300)
@pytest.mark.parametrize("page", STARTS)
def test_commands_of_a_page_run_as_they_stand(tmp_path: Path, page: str) -> None:
    output, directory = walk(page, tmp_path)
    check_end(page, output, directory)
    assert re.findall(r".*\b(?:warning|HCCL)\b.*", output, re.IGNORECASE) == []


def check_end(page: str, output: str, directory: Path) -> None:
    """Checks the results that a page promises."""
    if page == "README.md":
        assert "rank 7 of 8" in output
        assert "rank 15 of 16" in output
        assert output.endswith("ma_boot: the job is Completed; exit code 0\n")
    elif page == "docs/tutorial.md":
        sums = [(directory / f"obs/my-bucket/out/sum-{rank}.txt").read_text() for rank in range(4)]
        assert sums == ["1225\n", "1250\n", "1275\n", "1300\n"]
        assert "it failed, as it should" in output
        assert "exit code 137: node 1, rank 3 was killed by SIGKILL" in output
        assert '"command": "exec ma_boot train.py --epochs 2"' in output
        assert output.endswith("ma_boot: the job is Completed; exit code 0\n")
    elif page == "docs/how-to/data-in-obs.md":
        assert output.count("rank 0 has ['a.tar']") == 1
        results = sorted((directory / "obs/my-bucket/out").glob("*/*/result.txt"))
        assert {path.read_text() for path in results if path.parent.name == "1"} == {"1"}
    elif page == "docs/how-to/failed-job.md":
        assert (directory / "job.html").is_file()
    elif page == "docs/how-to/restart.md":
        assert re.search(r"\b1\b.*complete", output)
        assert "attempt 2" in output
    elif page == "docs/how-to/start-script.md":
        assert "dataset /path/dataset, devices 8" in output
    elif page == "docs/how-to/volcano.md":
        manifest = [*yaml.safe_load_all((directory / "job-volcano.yaml").read_text())]
        assert manifest[-1]["kind"] == "Job"


def test_each_command_is_run_or_has_a_reason() -> None:
    assert {*STARTS, WITH_LAUNCHERS} == {*pages()}
    lines = [line for page in STARTS for line in shell_lines(text_of(page))]
    assert [start for start in NOT_RUN if not any(line.startswith(start) for line in lines)] == []
    assert len([line for line in lines if is_run(line)]) > 30
    with_launchers = [line for stood_in in (True, False) for line in launchers.command_lines(stood_in)]
    assert sorted(with_launchers) == sorted(shell_lines(text_of(WITH_LAUNCHERS)))


def test_the_reasons_name_tests_that_exist() -> None:
    named = [path for why in NOT_RUN.values() for path in re.findall(r"tests/\S+\.py", why)]
    assert len(named) > 3
    assert [path for path in named if not (ROOT / path).exists()] == []


@pytest.mark.parametrize("page", pages())
def test_commands_have_the_same_words_in_chinese(page: str) -> None:
    """So those of the Chinese page, which differ in comments, need no run of their own."""
    english, chinese = (
        [shlex.split(line, comments=True) for line in shell_lines(text_of(path))]
        for path in (page, page.replace(".md", ".zh-CN.md"))
    )
    assert english == chinese
    assert len(english) > 0
