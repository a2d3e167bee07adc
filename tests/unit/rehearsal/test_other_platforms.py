"""The rehearsal's stand-in for Volcano and MindCluster: variables, tables and their states."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any, Dict, List

import pytest

from ma_boot.modelarts import JobEnvironment, read_job
from ma_boot.rank_table import WRITERS, NotYet, completed_document, convert, own_pod, parse
from ma_boot.rehearsal.platform import (
    SIMULATED,
    SimulatedJob,
    first_start,
    node_environment,
    rank_table,
    rescheduled,
    writes,
)

OTHERS = [name for name in SIMULATED if name != "modelarts"]


def job_on(platform: str) -> SimulatedJob:
    return SimulatedJob("1234", "/sandbox", 3, 2, platform, "machine")


def read(job: SimulatedJob, node: int, **outside: str) -> JobEnvironment:
    """The job as a node reads it."""
    return read_job(node_environment(job, node, "code", outside), "machine")


def ranks_of(job: SimulatedJob, node: int, table: Dict[str, Any]) -> List[Any]:
    own = own_pod(convert(parse(table)), read(job, node).identity)
    return [device.rank for device in own.devices]


@pytest.mark.parametrize("platform", OTHERS)
def test_a_node_knows_itself_by_the_variables_of_its_platform(platform: str) -> None:
    job = job_on(platform)
    for node in range(job.nodes):
        found = read(job, node, SLURM_JOB_ID="7", MA_VJ_NAME="ma-job-other", RANK="9")
        assert found.platform.name == platform
        assert (found.node_rank, found.node_count, found.name) == (node, 3, job.log_name)
        assert found.rank_table == str(job.table_file(node))
        assert found.log_dir == job.log_dir(node)
        assert not [name for name in node_environment(job, node, "code", {}) if name.startswith("MA_")]


@pytest.mark.parametrize("platform", OTHERS)
def test_the_states_of_the_table_are_those_of_its_writer(platform: str) -> None:
    planned = [write for write in writes(rank_table(job_on(platform)), [0], 1.0) if write.node == 0]
    *before, completed = planned
    assert json.loads(before[0].text) == WRITERS[platform].before[-1]
    assert all(isinstance(completed_document(write.text), NotYet) for write in before)
    assert completed_document(completed.text) == rank_table(job_on(platform))
    assert {write.swapped for write in planned} == {platform == "volcano"}
    assert len(before) == (1 if platform == "volcano" else 2)  # a ConfigMap is never torn


@pytest.mark.parametrize("platform", OTHERS)
@pytest.mark.parametrize("moved", [None, 0, 1])
def test_after_a_reschedule_each_node_finds_its_ranks(platform: str, moved: Any) -> None:
    job = job_on(platform)
    start = replace(job, counts=rescheduled(first_start(3), moved))
    table = rank_table(start)
    assert table != rank_table(job)
    assert [ranks_of(start, node, table) for node in range(3)] == [[0, 1], [2, 3], [4, 5]]


@pytest.mark.parametrize("platform", OTHERS)
def test_the_table_of_an_earlier_attempt_is_no_ones(platform: str) -> None:
    from ma_boot.errors import ConfigError
    from ma_boot.rehearsal.faults import parse_faults

    planned = writes(rank_table(job_on(platform)), [0], 1.0, parse_faults(["table-stale"], 3, 2))
    stale = json.loads(planned[0].text)
    for node in range(3):
        with pytest.raises(ConfigError):
            ranks_of(job_on(platform), node, stale)
