"""The platform's variables."""

from __future__ import annotations

from operator import attrgetter

import pytest

from ma_boot.errors import ConfigError
from ma_boot.platform.modelarts.job import read_job

PLATFORM = {
    "MA_HOME": "/home/ma-user",
    "MA_MOUNT_PATH": "/home/ma-user/modelarts",
    "MA_JOB_DIR": "/home/ma-user/modelarts/user-job-dir",
    "MA_LOG_DIR": "/home/ma-user/modelarts/log",
    "MA_VJ_NAME": "ma-job-123",
    "MA_NUM_HOSTS": "4",
    "MA_NUM_GPUS": "8",
    "VC_TASK_INDEX": "2",
    "VC_WORKER_HOSTS": "a.example, b.example,c.example,d.example",
    "MA_CURRENT_INSTANCE_NAME": "modelarts-job-123-worker-2",
    "MA_CURRENT_HOST_IP": "192.168.0.7",
    "RANK_TABLE_FILE": "/user/config",
}


def test_the_variables_of_a_job_are_read() -> None:
    job = read_job(PLATFORM, "host")
    assert job.name == "modelarts-job-123"
    assert (job.node_rank, job.node_count, job.device_count) == (2, 4, 8)
    assert job.place.hosts == ("a.example", "b.example", "c.example", "d.example")
    assert job.place.table == "/user/config/jobstart_hccl.json"


def test_a_container_without_any_variable_has_the_platforms_defaults() -> None:
    job = read_job({}, "host")
    assert (job.name, job.home, job.log_dir) == ("host", "/home/ma-user", "/home/ma-user/modelarts/log")
    assert (job.node_rank, job.node_count, job.device_count, job.place.table) == (0, 1, None, None)


@pytest.mark.parametrize(
    ("variables", "name", "value"),
    [
        ({"RANK_TABLE_FILE": "/data/table.json"}, "place.table", "/data/table.json"),
        ({"RANK_TABLE_FILE": ""}, "place.table", None),
        ({"BATCH_JOB_ID": "v1"}, "name", "v1"),
        ({"BATCH_TASK_CURRENT_INSTANCE": "v1-0"}, "place.pod", "v1-0"),
        ({"MA_MOUNT_PATH": "/mnt", "MA_LOG_DIR": ""}, "log_dir", "/mnt/log"),
        ({"MA_NUM_HOSTS": "1", "VC_TASK_INDEX": "7"}, "node_rank", 0),
        ({"MA_NUM_GPUS": "0"}, "device_count", None),
    ],
)
def test_invalid_variables_are_an_error(variables: dict[str, str], name: str, value: object) -> None:
    assert attrgetter(name)(read_job({**PLATFORM, **variables}, "host")) == value


def test_all_wrong_numbers_are_reported_at_once() -> None:
    with pytest.raises(ConfigError) as raised:
        read_job({"MA_NUM_HOSTS": "two", "MA_NUM_GPUS": "-1"}, "host")
    assert "MA_NUM_HOSTS is 'two'" in str(raised.value)
    assert "MA_NUM_GPUS is '-1'" in str(raised.value)


@pytest.mark.parametrize(("index", "message"), [("4", "expected 0 to 3"), ("", "VC_TASK_INDEX is not set")])
def test_a_node_without_a_number_is_an_error(index: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        read_job({**PLATFORM, "VC_TASK_INDEX": index}, "host")
