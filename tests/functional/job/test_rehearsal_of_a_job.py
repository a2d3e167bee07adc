"""`ma_boot --local --job job.yaml`: the file is the command line of the rehearsal."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from ma_boot.desk.job.job_file import JobFile
from ma_boot.desk.job.load import read_job_file
from ma_boot.desk.job.readers import JobProblem
from ma_boot.desk.job_service.in_obs import job_code, upload_code
from ma_boot.desk.rehearsal.platform.code_directory import code_files, copy_code
from path_mapping.mapping.routes import ObsUrl
from path_mapping.stores.open_store import open_store
from tests.conftest import CREDENTIALS
from tests.functional.job.program import ma_boot
from tests.functional.terminal import in_terminal
from tests.obs import MemoryObs

TRAIN = """
import json, os, sys
print(json.dumps(sys.argv), json.dumps(dict(os.environ)), flush=True)
print("code:", sorted(os.listdir(os.path.dirname(__file__))), flush=True)
with open(os.path.join(os.environ["train_url"], os.environ.get("RANK", "-")), "w") as file:
    file.write("done")
"""

JOB = """\
name: first
command: train.py --epochs 90
options: {tee: all, rendezvous: torch}
nodes: 2
devices-per-node: 2
exclude: ["*.ckpt"]
inputs: {data_url: obs://bucket/data/}
outputs: {"train_url@env": obs://bucket/out/}
parameters: {lr: 0.10}
environment: {GREETING: "hello you", MABOOT_STOP_TIMEOUT: 7}
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A directory with a training script, a job file, and OBS below it."""
    (tmp_path / "train.py").write_text(TRAIN)
    (tmp_path / "old.ckpt").write_text("")
    (tmp_path / "job.yaml").write_text(JOB)
    (tmp_path / "obs" / "bucket" / "data").mkdir(parents=True)
    (tmp_path / "obs" / "bucket" / "data" / "x").write_text("input")
    return tmp_path


REHEARSE = ["--local", "--job", "job.yaml", "--obs-root", "obs"]


def test_a_job_file_is_rehearsed(project: Path) -> None:
    ended = ma_boot(project, *REHEARSE)
    assert ended.code == 0, ended.output
    assert "2 nodes x 2 devices" in ended.output
    data = "home/ma-user/modelarts/inputs/data_url_0"
    assert f'{data}", "--lr=0.10"]' in ended.output
    assert '"GREETING": "hello you"' in ended.output
    assert "/home/ma-user/modelarts/outputs/train_url_0" in ended.output
    assert '"WORLD_SIZE": "4"' in ended.output
    assert "code: ['job.yaml', 'train.py']" in ended.output


def test_options_and_the_command_override_the_file(project: Path) -> None:
    ended = ma_boot(project, *REHEARSE, "--nodes", "1", "--rendezvous", "none", "train.py", "hi")
    assert ended.code == 0, ended.output
    assert "1 node x 2 devices" in ended.output
    assert '"RANK"' not in ended.output
    assert '/train.py", "hi", "--data_url=' in ended.output


def test_variables_of_the_shell_set_no_option_of_the_job(project: Path) -> None:
    ended = ma_boot(project, *REHEARSE, "--plan", more={"MABOOT_NODES": "3", "MABOOT_STOP_TIMEOUT": "9"})
    assert ended.code == 0, ended.output
    assert "MABOOT_NODES: not used" not in ended.output, "the file has the number of nodes"
    assert "nodes 0-1: 2 processes each, world size 4" in ended.output
    assert "node 2" not in ended.output
    noted = ma_boot(project, *REHEARSE, "--plan", more={"MABOOT_TEE": "first", "MABOOT_HANG_TIMEOUT": "9"})
    assert "note: MABOOT_HANG_TIMEOUT: not used, as the job would not have it" in noted.output


def test_all_mistakes_of_the_file_and_its_options_are_reported_together(project: Path) -> None:
    (project / "job.yaml").write_text(
        "nodes: 0\noptions:\n  rendevous: torch\n  tee: some\n  preflight: maybe\n  local: true\nretires: 3\n"
    )
    ended = ma_boot(project, "--local", "--job", "job.yaml")
    assert ended.code == 78
    assert ended.output.splitlines() == [
        "ma_boot: job.yaml is not a valid job file:",
        "  - line 1: nodes: found 0, expected a number from 1 to 1024",
        "  - line 3: options: rendevous: no such option of a job; did you mean rendezvous?; see ma_boot --help all",
        "  - line 4: options: tee: found 'some', expected all, first, none, or ranks such as 0,3",
        "  - line 5: options: preflight: expected true or false",
        "  - line 6: options: local: no such option of a job; see ma_boot --help all",
        "  - line 7: retires: no such key; did you mean retries?",
    ]


def test_the_first_file_is_rehearsed_as_it_is(project: Path) -> None:
    (project / "job.yaml").unlink()
    (project / "train.py").write_text("print('hi')")
    ended = ma_boot(
        project, "job", "init", "--nodes", "2", "--bucket", "bucket", "train.py", "--epochs", "90"
    )
    assert (ended.code, ended.output) == (
        0,
        "job.yaml\nnext: ma_boot --local --job job.yaml\nbefore submitting, fill in: image, flavor\n",
    )
    ended = ma_boot(project, "--local", "--job", "job.yaml", "--rendezvous", "torch")
    assert ended.code == 0, ended.output
    assert "2 nodes x 1 device" in ended.output


def test_the_first_file_has_the_inputs_and_outputs_and_asks_no_question(project: Path) -> None:
    """On a terminal, whose next lines a question would swallow."""
    project = project / "2_Own project"
    project.mkdir()
    options = "--image me/x:1 --pool p --bucket bucket --input data_url=obs://bucket/data/ --output train_url@env=obs://bucket/out"
    words = [sys.executable, "-m", "ma_boot", "job", "init", *options.split(), "train.py"]
    environ = {"PATH": "/usr/bin:/bin"}
    shown = in_terminal(words, project, environ, rows=24, columns=120, typed=b"the-next-line\n")
    assert shown.code == 0, shown.lines
    assert [line for line in shown.lines if line and line != "the-next-line"] == [
        "job.yaml",
        "next: ma_boot --local --job job.yaml",
    ]
    job, problems = read_job_file(str(project / "job.yaml"))
    assert (problems, job.name) == ([], "own-project")
    assert [(key, str(channel)) for key, channel in job.channels] == [
        ("inputs", "data_url=obs://bucket/data/"),
        ("outputs", "train_url@env=obs://bucket/out"),
    ]


def test_the_first_file_is_never_written_over_another(project: Path) -> None:
    ended = ma_boot(project, "job", "init", "--mapping", "train.py")
    assert ended.code == 73
    assert "job.yaml: already exists, and is never overwritten" in ended.output
    assert (project / "job.yaml").read_text() == JOB
    assert not (project / "path_mapping_config.py").exists()
    ended = ma_boot(project, "job", "init", "--file", "second.yaml", "--mapping", "train.py")
    assert ended.code == 0, ended.output
    assert "path-mapping: path_mapping_config.py" in (project / "second.yaml").read_text()
    plan = ma_boot(project, "sync", "plan", "path_mapping_config.py", "--obs-root", "obs")
    assert "obs://your-bucket/" in plan.output


def test_a_job_file_is_for_rehearsals(project: Path) -> None:
    ended = ma_boot(project, "--job", "job.yaml")
    assert ended.code == 64
    assert "--job: only for rehearsals; add --local." in ended.output
    ended = ma_boot(project, "--local", "--job", "missing.yaml", "train.py")
    assert ended.code == 78
    assert "cannot read the job file missing.yaml: No such file or directory" in ended.output


ODD_NAMES = (
    ".hidden", "a b", "a\nb", "[x]", "*", "!x", "#x", "back\\slash", " edge ", "中文", "dir.git/x", "sub/.git", "x~",
    "obs/bucket/own", "Ma_boot-rehearsal/x", "data.ckpt/x", ".x.0123456789ab.ma_part", "sub/" + "n" * 200,
)  # fmt: skip


def test_the_rehearsed_code_is_that_which_is_submitted(tmp_path: Path, obs: MemoryObs) -> None:
    """The same files, whatever they are called and whatever they are."""
    code = tmp_path / "code"
    for name in (*ODD_NAMES, "train.py", "__pycache__/x", ".git/x", "old.ckpt"):
        (code / name).parent.mkdir(parents=True, exist_ok=True)
        (code / name).write_text(name)
    (code / "linked").symlink_to("train.py")
    (code / "dangling").symlink_to("nowhere")
    (code / "directory").symlink_to("sub")
    os.mkfifo(code / "pipe")
    job = JobFile(name="x", command=("train.py",), code_url=ObsUrl("bucket", "jobs"), exclude=("*.ckpt",))
    problems: list[JobProblem] = []
    submitted = job_code(job, str(code), problems)
    assert problems == []
    environ = {"OBS_ENDPOINT": obs.url, **CREDENTIALS}
    assert upload_code(submitted, environ) == len(submitted.files)
    store = open_store(environ, None)
    uploaded = {
        object.key[len("jobs/x/code/") :]: b"".join(store.read("bucket", object.key))
        for object in store.list("bucket", "")
    }
    copy_code(code, code_files(code, (), job.exclude).files, tmp_path / "node")
    copied = {path.relative_to(tmp_path / "node").as_posix(): path for path in (tmp_path / "node").rglob("*")}
    assert uploaded == {name: path.read_bytes() for name, path in copied.items() if path.is_file()}
    assert {"train.py", "linked", "a\nb", "back\\slash"} <= set(uploaded)


def test_a_link_out_of_the_code_is_refused_before_anything_is_sent(project: Path) -> None:
    (project.parent / "beside").write_text("")
    (project / "outside").symlink_to(project.parent / "beside")
    text = (
        f"{project}/outside is a link out of the code directory, to {project.parent}/beside: put a copy there"
    )
    for words in (REHEARSE, ["job", "submit", "job.yaml", "--plan"]):
        ended = ma_boot(project, *words)
        assert (ended.code, text in ended.output) == (78, True), ended.output


def test_the_directory_that_stands_for_obs_is_code_of_neither(project: Path) -> None:
    assert ma_boot(project, *REHEARSE).code == 0
    (project / "train.py").write_text("import os\nprint(sorted(os.listdir(os.path.dirname(__file__))))\n")
    output = ma_boot(project, "--local", "train.py").output
    assert "'train.py'" in output
    assert "'obs'" not in output
    assert "obs" not in {file.parts[0] for file in code_files(project, ()).files}
