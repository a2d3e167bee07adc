"""Which platform runs a node, and what it says about the job."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, strategies as st

from ma_boot.errors import ConfigError
from ma_boot.platform.modelarts.job import JobEnvironment, read_job
from ma_boot.platform.recognition.launchers import expand_hosts
from ma_boot.platform.recognition.place import Surroundings
from ma_boot.platform.recognition.recognise import find_place, recognise

VOLCANO = {
    "VC_TASK_INDEX": "1",
    "VC_WORKER_NUM": "2",
    "VC_WORKER_HOSTS": "train-worker-0.train,train-worker-1.train",
}
TASKS = {
    **VOLCANO,
    "VC_TASK_INDEX": "0",
    "VC_MASTER_NUM": "1",
    "VC_MASTER_HOSTS": "train-master-0.train",
}
PYTORCH = {
    **TASKS,
    "MASTER_ADDR": "train-master-0.train",
    "MASTER_PORT": "23456",
    "WORLD_SIZE": "3",
    "RANK": "2",
}
ACJOB = {
    "MINDX_TASK_ID": "3f",
    "RANK": "1",
    "WORLD_SIZE": "16",
    "LOCAL_WORLD_SIZE": "8",
    "LOCAL_RANK": "0,1,2,3,4,5,6,7",
    "MASTER_ADDR": "10.247.0.9",
    "MASTER_PORT": "2222",
}
ACJOB_MINDSPORE = {
    "MINDX_TASK_ID": "3f",
    "MS_LOCAL_WORKER": "8",
    "MS_WORKER_NUM": "16",
    "MS_NODE_RANK": "1",
    "MS_SCHED_HOST": "10.247.0.9",
    "MS_SCHED_PORT": "8118",
    "MS_ROLE": "MS_WORKER",
}
OF_SCHEDULER = {**ACJOB_MINDSPORE, "MS_ROLE": "MS_SCHED", "MS_NODE_RANK": "0", "NPU_POD": "false"}
OF_MASTER = {**ACJOB, "RANK": "0", "REPLICA_TYPE": "Master"}  # the operator writes the workers' numbers
RETRIED = {**VOLCANO, "VC_JOB_RETRY_COUNT": "2"}
SLURM = {
    "SLURM_JOB_ID": "77",
    "SLURM_NODEID": "1",
    "SLURM_NNODES": "2",
    "SLURM_STEP_NUM_NODES": "2",
    "SLURM_LOCALID": "0",
    "SLURM_STEP_NODELIST": "gpu[08-09]",
}
KUBEFLOW = {
    "PET_NNODES": "2",
    "PET_NODE_RANK": "1",
    "PET_NPROC_PER_NODE": "8",
    "MASTER_ADDR": "train-master-0",
    "MASTER_PORT": "23456",
}
TORCHRUN = {
    "TORCHELASTIC_RUN_ID": "x",
    "GROUP_RANK": "1",
    "WORLD_SIZE": "2",
    "LOCAL_WORLD_SIZE": "1",
    "RANK": "1",
    "LOCAL_RANK": "0",
    "MASTER_ADDR": "head",
    "MASTER_PORT": "29500",
}
OPENMPI = {
    "OMPI_COMM_WORLD_SIZE": "2",
    "OMPI_COMM_WORLD_RANK": "1",
    "OMPI_COMM_WORLD_LOCAL_SIZE": "1",
    "MASTER_ADDR": "head",
}


def job_of(environ: dict[str, str], hostname: str = "train-worker-1", **around: Any) -> JobEnvironment:
    """The job as a node of it reads it."""
    return read_job(environ, hostname, None, lambda environ, name: Surroundings(environ, name, **around))


@pytest.mark.parametrize(
    ("environ", "platform", "job", "place", "devices", "master"),
    [
        ({}, "bare", "train-worker-1", (0, 1), None, (None, None)),
        (VOLCANO, "volcano", "train", (1, 2), None, (None, None)),
        (TASKS, "volcano", "train", (2, 3), None, (None, None)),  # both tasks have a pod of number 0 and 1
        (PYTORCH, "volcano", "train", (2, 3), None, ("train-master-0.train", 23456)),
        (ACJOB, "mindcluster", "3f", (1, 2), 8, ("10.247.0.9", 2222)),
        (ACJOB_MINDSPORE, "mindcluster", "3f", (1, 2), 8, ("10.247.0.9", 8118)),
        (
            {"XDL_IP": "10.0.0.1", **VOLCANO, "ASCEND_VISIBLE_DEVICES": "0-3,6"},
            "mindcluster",
            "train",
            (1, 2),
            5,
            (None, None),
        ),
        (SLURM, "slurm", "77", (1, 2), None, (None, None)),
        (KUBEFLOW, "kubeflow", "train-worker-1", (1, 2), 8, ("train-master-0", 23456)),
        (TORCHRUN, "torchrun", "train-worker-1", (1, 2), None, ("head", None)),
        (OPENMPI, "openmpi", "train-worker-1", (1, 2), None, ("head", None)),
        ({**OPENMPI, **SLURM}, "openmpi", "77", (1, 2), None, ("head", None)),
        ({**SLURM, "MA_NUM_GPUS": "8", "MA_HOME": "/home"}, "slurm", "77", (1, 2), 8, (None, None)),
        ({**SLURM, "MA_NUM_HOSTS": "4"}, "slurm", "77", (1, 4), None, (None, None)),
        (
            {**OF_MASTER, "ASCEND_VISIBLE_DEVICES": "0-7"},
            "mindcluster",
            "3f",
            (0, 2),
            8,
            ("10.247.0.9", 2222),
        ),
    ],
)
def test_each_platform_provides_the_same_values(
    environ: dict[str, str],
    platform: str,
    job: str,
    place: tuple[int, int],
    devices: int,
    master: tuple[str, int],
) -> None:
    read = job_of(environ)
    assert read.platform.name == platform
    assert (read.name, (read.node_rank, read.node_count), read.device_count) == (job, place, devices)
    assert (read.place.master, read.place.port) == master


def test_the_hosts_of_all_tasks_are_the_nodes_the_masters_first() -> None:
    assert job_of(TASKS).place.hosts == (
        *("train-master-0.train", "train-worker-0.train", "train-worker-1.train"),
    )
    assert job_of(SLURM).place.hosts == ("gpu08", "gpu09")


def test_every_pod_of_several_tasks_has_another_number() -> None:
    pods = ("train-master-0", "train-worker-0", "train-worker-1")
    assert [job_of(TASKS, pod).node_rank for pod in pods] == [0, 1, 2]


def test_volcanos_files_replace_its_variables() -> None:
    hosts = {"worker": ("train-worker-0.train", "train-worker-1.train")}
    job = job_of({"VC_TASK_INDEX": "1"}, host_files=hosts)
    assert (job.node_rank, job.node_count, job.name) == (1, 2, "train")


def test_modelarts_own_variables_come_first_on_every_platform() -> None:
    own = {"MA_NUM_HOSTS": "4", "MA_VJ_NAME": "ma-job-x"}
    job = job_of({**VOLCANO, **own})
    assert (job.platform.name, job.node_count, job.node_count_given) == ("modelarts", 4, True)
    assert job_of({**ACJOB, "MA_NUM_GPUS": "4"}).device_count == 4


def test_a_chosen_platform_comes_before_modelarts_variables() -> None:
    environ = {**SLURM, "MA_NUM_HOSTS": "4", "MA_VJ_NAME": "x"}
    job = read_job(environ, "gpu09", "slurm")
    assert (job.name, job.node_rank, job.node_count) == ("77", 1, 2)


def test_the_count_of_a_part_of_the_job_is_not_that_of_the_job() -> None:
    assert not job_of(VOLCANO).node_count_given
    assert job_of(PYTORCH).node_count_given
    assert job_of(ACJOB).node_count_given


def test_cards_and_tables_are_found_on_the_machine() -> None:
    table = "/user/config/jobstart_hccl.json"
    job = job_of(VOLCANO, tables=(table,), devices=frozenset({4, 5}))
    assert (job.place.table, job.device_count) == (table, 2)
    own = "/user/serverid/devindex/config/hccl.json"
    for directory in (own.rpartition("/")[0], "/data/"):
        given = job_of({**ACJOB, "RANK_TABLE_FILE": directory}).place.table
        assert given == f"{directory.rstrip('/')}/hccl.json", "MindCluster's name"
    assert job_of({**ACJOB, "RANK_TABLE_FILE": "/user/config"}).place.table == table
    assert job_of({**VOLCANO, "RANK_TABLE_FILE": own.rpartition("/")[0]}).place.table == own
    assert job_of(ACJOB, tables=(table, own)).place.table == own
    assert job_of({**ACJOB, "RANK_TABLE_FILE": "/data/x.json"}, tables=(own,)).place.table == "/data/x.json"


def test_the_table_of_all_clusters_comes_first() -> None:
    directory = {"GLOBAL_RANK_TABLE_FILE": "/user/config/global-ranktable", "RANK_TABLE_FILE": "/user/config"}
    assert job_of({**VOLCANO, **directory}).place.table == "/user/config/global-ranktable/jobstart_hccl.json"


def test_uid_and_addresses_of_a_pod_are_read() -> None:
    job = job_of({**ACJOB, "POD_UID": "6f", "XDL_IP": "10.0.0.1", "POD_IP": "172.16.0.4"})
    assert (job.place.uid, job.identity.addresses) == ("6f", ("10.0.0.1", "172.16.0.4"))


@pytest.mark.invariant("Contradicting platforms or values are reported, never guessed")
@pytest.mark.parametrize(
    ("environ", "messages"),
    [
        ({**VOLCANO, **SLURM}, ["volcano by VC_TASK_INDEX", "slurm by SLURM_JOB_ID", "--platform"]),
        ({**OPENMPI, **TORCHRUN}, ["openmpi by", "torchrun by"]),
        (
            {**ACJOB, **ACJOB_MINDSPORE, "MS_NODE_RANK": "0"},
            ["RANK says that node is 1", "MS_NODE_RANK that"],
        ),
        ({**ACJOB, "WORLD_SIZE": "12"}, ["WORLD_SIZE is 12, which is no multiple of LOCAL_WORLD_SIZE, 8"]),
        ({**ACJOB, "RANK": "x"}, ["RANK is 'x': expected an integer"]),
        ({**TORCHRUN, "LOCAL_WORLD_SIZE": "8"}, ["started 8 times on this node", "--nproc-per-node 1"]),
        ({**OPENMPI, "OMPI_COMM_WORLD_LOCAL_SIZE": "8"}, ["started 8 times", "ppr:1:node"]),
        ({**SLURM, "SLURM_LOCALID": "3"}, ["SLURM_LOCALID is 3", "--ntasks-per-node 1"]),
        ({"SLURM_JOB_ID": "7", "SLURM_NNODES": "2", "SLURM_NODEID": "0"}, ["the first node alone", "srun"]),
        ({"VC_TASK_INDEX": "1"}, ["but the number of nodes is unknown"]),
        ({**TASKS, "VC_MASTER_HOSTS": "m.train"}, ["the job has the tasks MASTER, WORKER", "VC_*_HOSTS"]),
        (OF_SCHEDULER, ["NPU_POD is false", "this pod has no NPUs", "not ma_boot"]),
        (OF_MASTER, ["REPLICA_TYPE is Master", "this pod has no NPUs"]),
        ({"MINDX_TASK_ID": "3f", "RANK": "0"}, ["RANK is 0, but the number of nodes is unknown"]),
        ({"MINDX_TASK_ID": "3f", "MS_NODE_RANK": "1"}, ["MS_NODE_RANK is 1, but the number of nodes"]),
        ({**SLURM, "SLURM_STEP_TASKS_PER_NODE": "8(x2)"}, ["SLURM_STEP_TASKS_PER_NODE is 8(x2)", "srun"]),
        ({"RANK": "0", "WORLD_SIZE": "2"}, ["WORLD_SIZE is 2", "MA_NUM_HOSTS and VC_TASK_INDEX"]),
        ({"PMI_RANK": "1", "PMI_SIZE": "2"}, ["PMI_SIZE is 2"]),
        ({"PBS_JOBID": "7", "PBS_NODENUM": "1"}, ["PBS_NODENUM is 1"]),
        ({**ACJOB, "RANK": "2"}, ["RANK is 2", "expected 0 to 1"]),
    ],
)
def test_contradictions_are_errors_that_name_both_sources(environ: dict[str, str], messages: Any) -> None:
    with pytest.raises(ConfigError) as raised:
        job_of(environ, "elsewhere")
    for text in messages:
        assert text in str(raised.value)


@pytest.mark.parametrize(
    ("text", "hosts"),
    [
        ("a", ["a"]),
        ("a,b-2", ["a", "b-2"]),
        ("gpu[08-10,12],c", ["gpu08", "gpu09", "gpu10", "gpu12", "c"]),
        ("r[1-2]n[1-2]", ["r1n1", "r1n2", "r2n1", "r2n2"]),
    ],
)
def test_slurms_lists_of_hosts(text: str, hosts: Any) -> None:
    assert list(expand_hosts(text)) == hosts


NAMES = sorted({*VOLCANO, *PYTORCH, *ACJOB, *ACJOB_MINDSPORE, *SLURM, *KUBEFLOW, *TORCHRUN, *OPENMPI})


@given(
    st.dictionaries(
        st.sampled_from(NAMES), st.sampled_from(["0", "1", "2", "8", "x", "", "a,b", "a.b,c.b", "n[1-2]"])
    )
)
def test_any_variables_are_read(environ: dict[str, str]) -> None:
    """What cannot be is an error of ours, nothing else; and no node is beyond the last."""
    try:
        job = job_of(environ)
    except ConfigError:
        return
    assert 0 <= job.node_rank < job.node_count
    assert set(job.node_variables) <= set(environ)


def test_every_value_has_a_source() -> None:
    for environ in (VOLCANO, PYTORCH, ACJOB, SLURM, KUBEFLOW, TORCHRUN, OPENMPI):
        place = find_place(recognise(environ), Surroundings(environ, "train-worker-1"), [])
        assert place.known().keys() <= place.sources.keys()
        for source in place.sources.values():
            assert any(name in source for name in (*environ, "VC_", "host name"))


def test_starts_of_the_job_are_counted() -> None:
    job = read_job(RETRIED, "train-worker-1", look=Surroundings)
    assert (job.schedule_count, job.event()["schedule_count"]) == (3, 3)
    assert "scheduled 3 times (VC_JOB_RETRY_COUNT + 1)" in job.summary()
    assert read_job(VOLCANO, "train-worker-1", look=Surroundings).schedule_count == 1
    with pytest.raises(ConfigError, match="VC_JOB_RETRY_COUNT is 'x'"):
        read_job({**VOLCANO, "VC_JOB_RETRY_COUNT": "x"}, "train-worker-1", look=Surroundings)
