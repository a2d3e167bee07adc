"""What ModelArts' own launcher does for its engines: diagnostic modes, channels, the variables of its first version."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, strategies as st

from ma_boot.node.environment.command_words import TrainingCommand
from ma_boot.node.launch.launch_plan import Node, Placement
from ma_boot.node.launch.options import LaunchOptions
from ma_boot.node.launch.worker_specs import diagnostic_variables, plan_launch
from ma_boot.platform.modelarts.job import Channel, read_channels, read_job

JOB = read_job({"MA_VJ_NAME": "ma-job-x", "MA_LOG_DIR": "/log"}, "host")
MINDSPORE_LOG = "/log/modelarts-job-x/mindspore/log"
GLOG = {"GLOG_log_dir": MINDSPORE_LOG, "GLOG_logtostderr": "0", "MS_OM_PATH": MINDSPORE_LOG}
FAULTS = {
    "PRINT_MODEL": "1",
    "DUMP_GE_GRAPH": "2",
    "DUMP_GRAPH_LEVEL": "2",
    "ASCEND_GLOBAL_LOG_LEVEL": "1",
    "ASCEND_HOST_LOG_FILE_NUM": "1000",
    "NPU_COLLECT_PATH": "/log/modelarts-job-x/ascend/npu_collect/rank_3",
}
RECORDER = {**GLOG, "GLOG_v": "1", "MS_RDR_ENABLE": "1", "MS_RDR_PATH": MINDSPORE_LOG}


@pytest.mark.parametrize(
    ("asked", "given_to_the_rank"),
    [
        ({}, {}),
        ({"MA_DIAG_MODE_ENV": "faults"}, FAULTS),
        ({"MA_DIAG_MODE_ENV": "faults", "MA_ENGINE_VERSION": "mindspore_1.3.0-cann_5"}, FAULTS),
        (
            {"MA_DIAG_MODE_ENV": "faults", "MA_ENGINE_VERSION": "mindspore_1.10.0-cann_6"},
            {**FAULTS, **RECORDER},
        ),
        (
            {"MA_DIAG_MODE_ENV": "accuracy"},
            {"MS_DIAGNOSTIC_DATA_PATH": "/log/modelarts-job-x/mindspore/diagnostic_data"},
        ),
        (
            {"MA_RUN_MODE_ENV": "performance"},
            {**GLOG, "ASCEND_GLOBAL_LOG_LEVEL": "3", "ASCEND_GLOBAL_EVENT_LEVEL": "0", "GLOG_v": "3"},
        ),
        ({"MA_RUN_MODE_ENV": "normal"}, {**GLOG, "GLOG_v": "1"}),
        ({"MA_RUN_MODE_ENV": "normal", "GLOG_v": "0"}, {**GLOG, "GLOG_v": "0"}),
    ],
)
def test_diagnostic_modes(asked: dict[str, str], given_to_the_rank: dict[str, str]) -> None:
    assert diagnostic_variables(JOB, asked, 3) == given_to_the_rank
    node = Node(JOB, Placement(4, (3,), "/t.json"), TrainingCommand(("python",)), "/", asked, ("10.0.0.1", 1))
    for way in ("rank-table", "mindspore", "torch", "none"):
        environ = plan_launch(node, LaunchOptions(way)).workers[-1].environ
        assert {name: environ.get(name) for name in given_to_the_rank} == given_to_the_rank


OBS = {"obs": {"obs_url": "s3://b/data/"}}
DATASET = {"datasets": {"obs_url": "/b/data/"}}
OF_FORM = {"label": "data_url", "value": "/in"}


@pytest.mark.parametrize(
    ("entry", "channel"),
    [
        (
            {"name": "d", "local_dir": "/in/d_0", "remote": OBS},
            Channel("d", "inputs", "/in/d_0", "s3://b/data/"),
        ),
        ({"name": "d", "local_dir": "/in/d", "remote": DATASET}, Channel("d", "inputs", "/in/d", "/b/data/")),
        ({"parameter": OF_FORM, "data_source": OBS}, Channel("data_url", "inputs", "/in", "s3://b/data/")),
        ({"name": "n", "local_dir": "/in"}, Channel("n", "inputs", "/in", None)),
    ],
)
def test_channels_of_both_shapes(entry: object, channel: Channel) -> None:
    assert read_channels({"MA_INPUTS": json.dumps({"inputs": [entry]})}) == ((channel,), ())


@given(st.text() | st.dictionaries(st.sampled_from(["inputs", "x"]), st.none() | st.lists(st.integers() | st.dictionaries(st.text(), st.text())))
       .map(json.dumps))  # fmt: skip
def test_invalid_channels_are_reported(text: str) -> None:
    channels, problems = read_channels({"MA_INPUTS": text})
    assert not (channels and problems)
    assert all(problem.startswith("MA_INPUTS is not in the platform's format") for problem in problems)


def test_the_variables_of_the_first_version_are_read() -> None:
    old = {
        "DLS_TASK_NUMBER": "2", "DLS_TASK_INDEX": "1", "BATCH_JOB_ID": "job1", "BATCH_TASK_CURRENT_INSTANCE": "job1-1",
        "BATCH_TASK_LOG_PATH": "/v1/log", "BATCH_CUSTOM1_HOSTS": "b:6666", "BATCH_CUSTOM0_HOSTS": "a:6666",
    }  # fmt: skip
    job = read_job(old, "host")
    assert (job.name, job.node_count, job.node_rank, job.place.pod) == ("job1", 2, 1, "job1-1")
    assert (job.log_dir, job.place.hosts) == ("/v1/log", ("a", "b"))
    assert "DLS_TASK_INDEX for VC_TASK_INDEX" in job.summary()
    today = read_job({**old, "MA_NUM_HOSTS": "4", "VC_TASK_INDEX": "3"}, "host")
    assert (today.node_count, today.node_rank) == (4, 3)
