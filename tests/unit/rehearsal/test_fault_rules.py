"""The rank table under faults, the expected outcome of each fault, and the verdicts."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any, Dict, List, Optional, Union

import pytest
from hypothesis import given, strategies as st

from ma_boot.rank_table import Identity, NotYet, completed_document, convert, errors, own_pod, parse, validate
from ma_boot.rehearsal.faults import (
    CASES,
    KINDS,
    Fault,
    FaultVerdict,
    InjectedFault,
    JobEnd,
    OutputFiles,
    Patience,
    expected,
    parse_faults,
    verdict_on,
)
from ma_boot.rehearsal.faults.expectations import SUCCESS, Expected
from ma_boot.rehearsal.platform import (
    SimulatedJob,
    StartCounts,
    at_start,
    first_start,
    rank_table,
    rescheduled,
    writes,
)
from ma_boot.rehearsal.verdicts import compared_outputs
from path_mapping.mapping.routes import ObsUrl, Route

JOB = SimulatedJob("1234", "/sandbox", nodes=3, devices_per_node=2)
TABLE = rank_table(JOB)
PATIENCE = Patience(15.0, 1800.0, ends_hangs=False)


def contents(words: str, node: int = 0) -> List[str]:
    """The successive contents of a node's file under a fault."""
    faults = parse_faults([words], 3, 2)
    return [write.text for write in writes(TABLE, [0, 1, 2], 1.0, faults) if write.node == node]


def is_right(text: str) -> bool:
    found = completed_document(text)
    if isinstance(found, NotYet):
        return False
    table = parse(found)
    return not errors(validate(table, None)) and len(table.pods) == JOB.nodes and "earlier" not in text


@pytest.mark.parametrize(
    ("words", "last_is_right"),
    [
        ("table-late for=5s", True), ("table-never", False), ("table-torn", False), ("table-torn for=1s", True),
        ("table-empty", False), ("table-empty for=1s", True), ("table-regresses", True), ("table-lacks pod=1", False),
        ("table-lacks pod=1 for=1s", True), ("table-stale", False), ("table-stale for=1s", True),
        ("table-wrong", False), ("table-rewritten", True), ("absent node=2", False),
    ],
)  # fmt: skip
def test_a_table_that_is_to_become_right_does_and_no_other(words: str, last_is_right: bool) -> None:
    assert is_right(contents(words)[-1]) == last_is_right


def test_a_fault_of_one_nodes_table_leaves_the_others_alone() -> None:
    assert not is_right(contents("table-torn node=1", node=1)[-1])
    assert is_right(contents("table-torn node=1", node=2)[-1])


def test_a_table_that_regresses_was_completed_before() -> None:
    assert [is_right(text) for text in contents("table-regresses")] == [True, False, True]


def test_a_table_that_lacks_a_pod_is_right_in_itself() -> None:
    table = parse(json.loads(contents("table-lacks pod=1")[-1]))
    assert [pod.name for pod in table.pods] == ["ma-job-1234-worker-2", "ma-job-1234-worker-0"]
    assert errors(validate(table, None)) == []


@given(st.lists(st.sampled_from([None, 0, 1, 2]), max_size=6))
def test_after_any_reschedules_every_node_finds_itself_and_its_ranks(moved: List[Optional[int]]) -> None:
    counts = first_start(JOB.nodes)
    for node in moved:
        counts = rescheduled(counts, node)
    start = at_start(JOB, counts, exact_paths=False)
    table = convert(parse(rank_table(start)))
    assert errors(validate(table, None)) == []
    for node in range(JOB.nodes):
        pod = own_pod(table, Identity(f"modelarts-job-1234-worker-{node}", addresses=(start.address(node),)))
        assert [device.rank for device in pod.devices] == [2 * node, 2 * node + 1]
        assert pod.server_id == start.address(node)


def test_a_replaced_node_has_other_addresses_and_another_place_in_the_table() -> None:
    before = rank_table(at_start(JOB, first_start(3), exact_paths=False))
    counts = rescheduled(first_start(3), 2)
    after = rank_table(at_start(JOB, counts, exact_paths=False))
    pods = [pod["pod_name"][-1] for pod in after["group_list"][0]["instance_list"]]
    assert [pod["pod_name"][-1] for pod in before["group_list"][0]["instance_list"]] == ["2", "1", "0"]
    assert pods == ["0", "1", "2"]
    assert after["group_list"][0]["instance_list"][2]["server_id"] == "127.1.0.3"
    assert after["group_list"][0]["instance_list"][2]["devices"][0]["device_ip"].startswith("193.")
    assert (counts[2], counts[0]) == (StartCounts(2, 1), StartCounts(1, 2))


def test_the_catalogue_has_every_kind_and_says_what_is_expected() -> None:
    faults = [parse_faults([case.fault], 2, 2)[0] for case in CASES]
    assert len(CASES) >= 40
    assert {fault.kind for fault in faults} == set(KINDS)
    assert len({str(fault) for fault in faults}) == len(CASES)
    impatient = Patience(1.0, 6.0, ends_hangs=True)
    for case, fault in zip(CASES, faults):
        patience = impatient if "--hang-action" in case.options else Patience(15.0, 6.0, ends_hangs=False)
        assert case.expected or expected(fault, patience), case.fault


@pytest.mark.parametrize(
    ("words", "code"),
    [
        ("kill rank=1", 137), ("kill rank=1 signal=SEGV", 139), ("exit rank=1 code=9", 9), ("stop phase=run", 143),
        ("absent node=1", 75), ("table-wrong", 65), ("restart", 0), ("obs-403", 69), ("obs-404", 66),
        ("obs-403 method=PUT", 74), ("obs-503 times=2", 0), ("lost node=1", 137), ("table-torn for=30m", 75),
    ],
)  # fmt: skip
def test_the_expected_exit_codes(words: str, code: int) -> None:
    found = expected(parse_faults([words], 3, 2)[0], PATIENCE)
    assert found is not None
    assert found.code == code


SUCCEEDED = JobEnd(0, "success", 12.5, outputs=OutputFiles(4, ()))


def verdict(
    wanted: Optional[Expected], end: JobEnd = SUCCEEDED, came: Union[float, str] = 10.0
) -> FaultVerdict:
    fault = Fault("kill", rank=1)
    return verdict_on(fault, InjectedFault(fault, came) if isinstance(came, float) else came, end, wanted)


def test_a_verdict_says_what_how_long_and_what_was_lost() -> None:
    found = verdict(SUCCESS)
    assert found.wrong == ()
    assert found.lines() == [
        "fault: kill rank=1",
        "  the job ended 2.5 s after it with exit code 0",
        "  the cause: success",
        "  outputs: all 4 files are in OBS",
        "  as expected",
    ]


@pytest.mark.parametrize(
    ("changes", "wrong"),
    [
        ({"code": 1, "cause": "rank 0 failed"}, "expected exit code 0, found 1: rank 0 failed"),
        ({"cause": "rank 0 failed"}, "expected 'success' as the cause, found 'rank 0 failed'"),
        ({"outputs": OutputFiles(4, ("/a",))}, "expected all outputs in OBS"),
        ({"starts": 2}, "expected 1 starts of the job, found 2"),
        ({"left": (17,)}, "processes still running at the end: 17"),
    ],
)
def test_a_verdict_that_is_not_the_expected_one_says_why(changes: Dict[str, Any], wrong: str) -> None:
    found = verdict(SUCCESS, replace(SUCCEEDED, **changes))
    assert found.wrong == (wrong,)
    assert found.lines()[-1] == f"  NOT as expected: {wrong}"


def test_a_verdict_on_a_fault_that_was_not_injected_says_why() -> None:
    assert verdict(SUCCESS, came="rank 1 printed 3 lines").wrong == (
        "the fault was not injected: rank 1 printed 3 lines",
    )
    assert verdict(None).wrong is None
    assert verdict(None, replace(SUCCEEDED, left=(17,))).wrong is not None


def test_a_line_of_a_verdict_fits_the_screen() -> None:
    assert max(map(len, verdict(SUCCESS, replace(SUCCEEDED, code=1, cause="x" * 500)).lines())) <= 90


def test_an_output_is_uploaded_when_obs_has_the_same_content(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "obs" / "bucket").mkdir(parents=True)
    (tmp_path / "out" / "x").write_text("new")
    (tmp_path / "obs" / "bucket" / "x").write_text("old")
    places = [(Route("out", ObsUrl.parse("obs://bucket/")), tmp_path)]
    assert compared_outputs(places, tmp_path / "obs") == OutputFiles(1, (str(tmp_path / "out" / "x"),))
    (tmp_path / "obs" / "bucket" / "x").write_text("new")
    assert compared_outputs(places, tmp_path / "obs") == OutputFiles(1, ())
