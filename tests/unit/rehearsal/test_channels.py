"""The job form's inputs and outputs, re-rooted mappings, and the options of bubblewrap."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ma_boot.desk.rehearsal.node_specs import rerooted
from ma_boot.desk.rehearsal.platform.simulated_job import (
    SimulatedJob,
    channel_arguments,
    channel_variables,
    parse_channels,
)
from ma_boot.desk.rehearsal.sandbox import exact_paths, small_disks
from ma_boot.errors import UsageError
from path_mapping.mapping.mapping_file import parse_mapping

JOB = SimulatedJob("1234", "/sandbox", nodes=2, devices_per_node=2)
INPUTS = "/sandbox/node-1/home/ma-user/modelarts/inputs"


def test_a_channel_is_an_argument_or_a_variable() -> None:
    channels = parse_channels(
        ["data_url=obs://bucket/data/", "extra@env=obs://bucket/extra/"], ["train_url=obs://bucket/out"]
    )
    assert channel_arguments(channels, JOB, 1) == (
        f"--data_url={INPUTS}/data_url_0",
        "--train_url=/sandbox/node-1/home/ma-user/modelarts/outputs/train_url_0",
    )
    variables = channel_variables(channels, JOB, 1)
    assert variables["extra"] == f"{INPUTS}/extra_0"
    assert json.loads(variables["MA_INPUTS"])["inputs"][0] == {
        "name": "data_url",
        "local_dir": f"{INPUTS}/data_url_0",
        "remote": {"obs": {"obs_url": "obs://bucket/data/"}},
    }


def test_all_mistakes_of_the_job_form_at_once() -> None:
    with pytest.raises(UsageError) as caught:
        parse_channels(["data_url", "x=/local"], ["y=obs://bucket/o", "y=obs://bucket/p"])
    for problem in (
        "--input data_url: expected NAME=obs://",
        "--input x=/local: found '/local'",
        "y: expected once",
    ):
        assert problem in str(caught.value)


def test_a_rerooted_mapping_is_the_same_but_for_the_absolute_paths() -> None:
    text = json.dumps(
        {
            "input": {"/cache/data": {"obs": "obs://bucket/{{x}}/", "include": ["*.bin"], "shard": True}},
            "output": {"out": {"obs": "obs://bucket/out/", "interval": 30, "required": False}},
        }
    )
    mapping = parse_mapping(text, "m.json")
    again = parse_mapping(rerooted(mapping, "/sandbox/node-0"), "m.json")
    assert again.outputs == mapping.outputs
    assert again.inputs[0].local == "/sandbox/node-0/cache/data"
    assert (again.inputs[0].remote, again.inputs[0].include, again.inputs[0].shard) == (
        mapping.inputs[0].remote,
        ("*.bin",),
        True,
    )


@pytest.fixture
def machine(tmp_path: Path) -> str:
    """A directory that stands for the root directory of this machine."""
    for name in ("usr/bin", "home/ma-user", "home/alice", "cache", "user/config", "user/shared"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "bin").symlink_to("usr/bin")
    return str(tmp_path)


def test_the_sandbox_shows_everything_else_and_hides_the_three_paths(machine: str) -> None:
    options = exact_paths("/sandbox/node-0", {"/cache": 1000}, (1000, 100), machine)
    words = " ".join(options)
    for shown in ("--dev-bind /usr /usr", "--symlink usr/bin /bin", "--dev-bind /home/alice /home/alice",
                  "--dev-bind /user/shared /user/shared", "--bind /sandbox/node-0/cache /cache",
                  "--uid 1000 --gid 100", "--size 1000 --tmpfs /cache"):  # fmt: skip
        assert shown in words
    for hidden in (
        "--dev-bind /cache",
        "--dev-bind /home/ma-user",
        "--dev-bind /home /home",
        "--dev-bind /user /user",
    ):
        assert hidden not in words


def test_small_disks_alone_leave_everything_as_it_is() -> None:
    assert small_disks({"/sandbox/node-0/cache": 1}) == (
        "--dev-bind", "/", "/", "--perms", "0777", "--size", "1", "--tmpfs", "/sandbox/node-0/cache",
    )  # fmt: skip
