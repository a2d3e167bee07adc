"""`ma_boot job submit --plan`: the request of a job, and all that the form would refuse, without a network."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ma_boot.desk.job.request import MARK
from tests.functional.job.program import ma_boot
from tests.functional.node import Ended

JOB = """\
name: first
image: swr.cn-north-4.myhuaweicloud.com/vision/resnet:1
command: src/train.py --epochs 90
options: {path-mapping: src/conf/map.py, source: /usr/local/Ascend/set_env.sh}
nodes: 2
devices-per-node: 8
pool: pool-1
flavor: modelarts.pool.visual.8xlarge
code-dir: src
code-url: obs://bucket/jobs/
exclude: ["*.ckpt"]
secrets: [OBS_SECRET_ACCESS_KEY]
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A directory with a job file and its code."""
    for name in ("src/train.py", "src/old.ckpt", "src/.git/config", "src/conf/map.py"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("")
    (tmp_path / "job.yaml").write_text(JOB)
    return tmp_path


SECRET = {"OBS_SECRET_ACCESS_KEY": "SKPLANTED"}


def plan(project: Path, *words: str, more: dict[str, str] = SECRET) -> Ended:
    """Plans the submission of the job file."""
    return ma_boot(project, "job", "submit", "job.yaml", "--plan", *words, more=more)


def request(ended: Ended) -> dict[str, Any]:
    """The request of a plan in JSON."""
    assert ended.code == 0, ended.output
    return dict(json.loads(ended.output)["request"])


def test_the_plan_is_the_request_and_the_code(project: Path) -> None:
    ended = plan(project, "--json")
    algorithm = request(ended)["algorithm"]
    assert json.loads(ended.output)["code"] == {
        "directory": str(project / "src"),
        "url": "obs://bucket/jobs/first/src/",
        "files": ["train.py", "conf/map.py"],
        "bytes": 0,
    }
    assert algorithm["command"] == (
        "exec ma_boot --path-mapping=conf/map.py --source=/usr/local/Ascend/set_env.sh train.py --epochs 90"
    )
    variables = algorithm["environments"]
    secrets = {"OBS_SECRET_ACCESS_KEY": "******", "MABOOT_JOB_TOKEN": "******"}
    assert variables == {**secrets, MARK: variables[MARK]}
    assert algorithm["engine"] == {"image_url": "vision/resnet:1"}
    text = plan(project).output
    assert "-> obs://bucket/jobs/first/src/: 2 files, " in text
    assert "PLANTED" not in text + ended.output


def settings(*changes: str) -> list[str]:
    return [word for change in changes for word in ("--set", change)]


def test_settings_and_a_command_override_the_file(project: Path) -> None:
    words = settings("nodes=4", "environment.A=b=c", "inputs.data@env=obs://bucket/data", "options.tee=all")
    command = ["--", "--tee", "first", "--preflight", "src/train.py", "--epochs", "1"]
    body = request(plan(project, "--json", *words, *command))
    assert body["spec"]["resource"]["node_count"] == 4
    assert body["algorithm"]["environments"]["A"] == "b=c"
    assert body["algorithm"]["inputs"][0]["access_method"] == "env"
    assert body["algorithm"]["command"].endswith("--tee=first --preflight train.py --epochs 1")


def test_without_a_file_the_command_line_is_enough(project: Path) -> None:
    form = settings("name=second", "image=a/b:1", "flavor=f", "code-url=obs://bucket/x")
    words = (*form, "--plan", "--json", "--", "src/train.py", "--lr", "1")
    algorithm = request(ma_boot(project, "job", "submit", *words))["algorithm"]
    assert len(algorithm.pop("environments")[MARK]) == 32
    assert algorithm == {
        "engine": {"image_url": "a/b:1"},
        "code_dir": "/bucket/x/second/src/",
        "command": "exec ma_boot train.py --lr 1",
    }


def test_values_that_the_form_rejects_are_reported_together(project: Path) -> None:
    (project / "job.yaml").write_text(
        "options: {path-mapping: gone.py}\nnodes: none\npool: p\nflavor: modelarts.pool.visual.2xlarge\nsecrets: [A]\n"
        "command: src/train.py\n"
    )
    words = settings("environment=X", "environment.MA_X=1", "node=2", "nodes", "nodes=x", "name.a=b")
    ended = plan(project, *words, "--", "--tee=x", more={})
    assert ended.code == 78
    assert ended.output.splitlines() == [
        "ma_boot: the job cannot be submitted:",
        "  - --set environment: expected environment.NAME=VALUE",
        "  - --set node: no such key; did you mean nodes?",
        "  - --set nodes: expected nodes=VALUE",
        "  - --set nodes: found 'x', expected a number from 1 to 1024",
        "  - --set name.a: expected name=VALUE",
        "  - --tee: found 'x', expected all, first, none, or ranks such as 0,3",
        "  - environment: MA_X: found MA_X, but names that begin with MA_ are ModelArts' own",
        "  - name: missing, expected letters, digits, - and _, at most 64",
        "  - image: missing, expected ORGANIZATION/NAME:TAG in SWR",
        "  - code-url: missing, expected where the code goes: obs://bucket/jobs/",
        f"  - line 1: options: path-mapping: gone.py: no such file here, or in {project}/src",
        "  - line 2: nodes: found 'none', expected a number from 1 to 1024",
        "  - line 4: flavor: modelarts.pool.visual.2xlarge has 2 cards, but devices-per-node is 1",
        "  - line 5: secrets: A is not set in this shell",
    ]


def test_mistake_that_a_setting_overrides_is_not_reported(project: Path) -> None:
    """The file has 8 devices per node and a flavor of 8 cards: both are changed."""
    words = settings("devices-per-node=2", "flavor=modelarts.pool.visual.2xlarge")
    ended = plan(project, *words)
    assert ended.code == 0, ended.output
    text = (project / "job.yaml").read_text()
    (project / "job.yaml").write_text(text.replace("devices-per-node: 8", "devices-per-node: 2"))
    ended = plan(project, *words[2:])
    assert ended.code == 0, ended.output


def test_secrets_in_the_file_are_pointed_out(project: Path) -> None:
    ended = plan(project, *settings("environment.MY_TOKEN=PLANTED-1"))
    assert ended.code == 0, ended.output
    assert "note: environment: MY_TOKEN: the value of a secret" in ended.output
    assert "PLANTED" not in ended.output


def test_a_path_mapping_without_keys_is_pointed_out(project: Path) -> None:
    expected = (
        "note: line 12: secrets: no keys for the path mapping; expected OBS_ACCESS_KEY_ID and OBS_SECRET"
    )
    assert expected in plan(project).output
    keys = {**SECRET, "OBS_ACCESS_KEY_ID": "AKPLANTED"}
    assert "note:" not in plan(project, *settings("secrets=OBS_ACCESS_KEY_ID"), more=keys).output


def test_a_code_directory_has_limits(project: Path) -> None:
    deep = project / "src" / "/".join("d" * 32)
    deep.mkdir(parents=True)
    (deep / "x").write_text("")
    for number in range(980):
        (project / "src" / f"{number}").write_text("")
    limits = (
        "exceeds the limits of ModelArts for a code directory (1000 files and directories, 32 levels, 5 GB)"
    )
    rehearsed = ma_boot(project, "--local", "--code-dir", "src", "true")
    for key, ended in (("code-dir: ", plan(project)), ("", rehearsed)):
        assert ended.code == 78
        assert f"{key}{project}/src {limits}; found at least 98" in ended.output
        assert "/d/x, which is on level 33; " in ended.output


def test_a_secret_is_no_longer_than_the_form_takes(project: Path) -> None:
    ended = plan(project, *settings("secrets=LONG"), more={**SECRET, "LONG": "x" * 4097})
    assert ended.code == 78
    assert "secrets: LONG has 4097 characters, expected at most 4096" in ended.output


def test_a_mistake_of_syntax_comes_alone(project: Path) -> None:
    (project / "job.yaml").write_text("name: [\nnodes: none\n")
    ended = plan(project)
    assert ended.code == 78
    assert len(ended.output.splitlines()) == 2
    assert "not YAML" in ended.output


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["--image", "Vision"], "found 'Vision', expected ORGANIZATION/NAME:TAG in SWR"),
        (["--bucket", "Not_One"], "found the bucket 'Not_One'"),
        (["--name", "a b"], "found 'a b', expected 1 to 64 letters"),
        (["train.py", "\udcff"], "COMMAND: found the character '\\udcff', which a job file cannot have"),
        (["train.py", "a\x7fb"], "COMMAND: found the character '\\x7f', which a job file cannot have"),
        (["--pool", "a\x9bb"], "--pool: found the character '\\x9b', which a job file cannot have"),
        (
            ["--input", "data_url=/here"],
            "--input data_url=/here: found '/here', expected 'obs://bucket/path'",
        ),
        (["--output", "second.yaml"], "--output second.yaml: expected NAME=obs://bucket/path"),
    ],
)
def test_first_file_is_not_written_with_values_that_the_form_rejects(
    tmp_path: Path, words: list[str], text: str
) -> None:
    ended = ma_boot(tmp_path, "job", "init", *words)
    assert ended.code == 64
    assert text in ended.output
    assert [*tmp_path.iterdir()] == []
