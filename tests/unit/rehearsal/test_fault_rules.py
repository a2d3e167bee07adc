"""The rank table under faults, and the verdicts."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from ma_boot.desk.rehearsal.faults import parse_faults
from ma_boot.desk.rehearsal.platform.simulated_job import (
    SimulatedJob,
    StartCounts,
    first_start,
    rank_table,
    rescheduled,
)
from ma_boot.desk.rehearsal.platform.table_writes import writes
from ma_boot.desk.rehearsal.summary import FaultVerdict, compared_outputs
from ma_boot.platform.rank_table import NotYet, completed_document, errors, parse, validate
from path_mapping.mapping.routes import ObsUrl, Route

JOB = SimulatedJob("1234", "/sandbox", nodes=3, devices_per_node=2)


def contents(words: str, node: int = 0) -> list[str]:
    """The successive contents of a node's file under a fault."""
    faults = parse_faults([words], 3, 2)
    return [write.text for write in writes(JOB, [0, 1, 2], 1.0, faults) if write.node == node]


def is_right(text: str) -> bool:
    document = completed_document(text)
    if isinstance(document, NotYet):
        return False
    table = parse(document)
    return not errors(validate(table, None)) and len(table.pods) == JOB.nodes and "earlier" not in text


@pytest.mark.parametrize(
    ("words", "last_is_right"),
    [
        ("table-late for=5s", True),
        ("table-lacks pod=1", False),
        ("table-lacks pod=1 for=1s", True),
        ("absent node=2", False),
    ],
)
def test_table_becomes_right_only_if_the_fault_ends(words: str, last_is_right: bool) -> None:
    assert is_right(contents(words)[-1]) == last_is_right


def test_a_fault_of_one_nodes_table_leaves_the_others_alone() -> None:
    assert not is_right(contents("table-lacks pod=0 node=1", node=1)[-1])
    assert is_right(contents("table-lacks pod=0 node=1", node=2)[-1])


def test_a_table_that_lacks_a_pod_is_right_in_itself() -> None:
    table = parse(json.loads(contents("table-lacks pod=1")[-1]))
    assert [pod.name for pod in table.pods] == ["ma-job-1234-worker-2", "ma-job-1234-worker-0"]
    assert errors(validate(table, None)) == []


def test_a_replaced_node_has_other_addresses_and_another_place_in_the_table() -> None:
    counts = rescheduled(first_start(3), 2)
    assert (counts[2], counts[0]) == (StartCounts(2, 1), StartCounts(1, 2))
    before, after = (
        rank_table(job)["group_list"][0]["instance_list"] for job in (JOB, replace(JOB, counts=counts))
    )
    assert [pod["pod_name"][-1] for pod in before] == ["2", "1", "0"]
    assert [pod["pod_name"][-1] for pod in after] == ["0", "1", "2"]
    assert after[2]["server_id"] == "127.1.0.3"
    assert after[2]["devices"][0]["device_ip"].startswith("193.")


ENDED = FaultVerdict("kill rank=1", True, 0, "success", 2.5, 4, 0, ())


def test_a_verdict_says_what_how_long_and_what_was_lost() -> None:
    assert ENDED.lines() == [
        "fault: kill rank=1",
        "  the job ended 2.5 s after it with exit code 0",
        "  the cause: success",
        "  outputs: all 4 files are in OBS",
    ]
    assert "  outputs: 1 of 4 files are not in OBS" in replace(ENDED, lost=1).lines()
    assert "  outputs: not checked" in replace(ENDED, files=None, lost=None).lines()


def test_a_verdict_says_what_was_not_as_expected() -> None:
    missed = replace(ENDED, came=False, seconds=None, wrong=("the fault was not injected: rank 1 had ended",))
    assert missed.lines()[1:] == ["  NOT as expected: the fault was not injected: rank 1 had ended"]


def test_a_line_of_a_verdict_fits_the_screen() -> None:
    assert max(map(len, replace(ENDED, code=1, cause="x" * 500).lines())) <= 90


def test_an_output_is_uploaded_when_obs_has_the_same_content(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "obs" / "bucket").mkdir(parents=True)
    (tmp_path / "out" / "x").write_text("new")
    (tmp_path / "obs" / "bucket" / "x").write_text("old")
    places = [(Route("out", ObsUrl.parse("obs://bucket/")), tmp_path)]
    assert compared_outputs(places, tmp_path / "obs") == (1, 1)
    (tmp_path / "obs" / "bucket" / "x").write_text("new")
    assert compared_outputs(places, tmp_path / "obs") == (1, 0)
