"""The lines of the nodes that a rehearsal prints without `--verbose`, by their kind."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from ma_boot.desk.rehearsal.brief import BriefLines
from ma_boot.wording import ProgressLine, WarningLine, marked


def shown(*lines: str) -> list[str]:
    data = "".join(f"{line}\n" for line in lines).encode()
    return BriefLines()(data).decode().splitlines()


def printed(text: str) -> str:
    """The line that a node prints."""
    return f"[ma_boot] {marked(text)}"


@pytest.mark.parametrize(
    ("text", "nodes"),
    [
        (ProgressLine("checkpoint step 3: published in 0.1 s: 2 files, 3 kB"), ""),
        ("exit code 0: success", ""),
        ("exit code 0, but a process of the training failed: x", "0"),
        ("exit code 3: rank 0 ended with exit code 3", "0"),
        (WarningLine("x"), "0"),
        (WarningLine("outputs so far: not all uploaded, the next round retries: x"), "0"),
        (WarningLine("checkpoints: not published, the next look tries again: x"), "0"),
        ("ValueError: x ", "0"),
        ("waiting for x: done in 0.0 s", "0"),
    ],
)
def test_only_progress_is_left_out_and_the_rest_is_shown_once(text: str, nodes: str) -> None:
    lines = [f"[node {node}] {printed(text)}" for node in (0, 1)]
    assert shown(*lines) == [line for line in lines if line[6] in nodes]


def test_lines_below_progress_are_left_out_too() -> None:
    progress = printed(ProgressLine("inputs: 1 file\n  a"))
    lines = [f"[node 1] {line}" for line in progress.replace("\n", "\n[ma_boot] ").split("\n")]
    assert shown(*lines, "[node 1] [ma_boot] x") == ["[node 1] [ma_boot] x"]


def test_warning_with_other_lines_below_it_is_shown_for_each_node() -> None:
    first = ["[node 1] [ma_boot] warning: x", "[node 1] [ma_boot]   - a"]
    same = ["[node 2] [ma_boot] warning: x", "[node 2] [ma_boot]   - a"]
    other = ["[node 0] [ma_boot] warning: x", "[node 0] [ma_boot]   - a", "[node 0] [ma_boot]   - b"]
    last = ["[node 0] [ma_boot] warning: y", "[node 0] [ma_boot]   - a"]
    assert shown(*first, *same, *other, *last) == [*first, other[0], other[2], *last]


@pytest.mark.invariant("No view leaves out a warning")
@given(
    st.lists(st.tuples(st.integers(0, 2), st.sampled_from("pw"), st.text("ab: ", max_size=3).map(str.lstrip)))
)
def test_no_warning_is_ever_left_out(lines: list[tuple[int, str, str]]) -> None:
    kinds = {"p": ProgressLine, "w": WarningLine}
    output = [(node, printed(kinds[kind](text))) for node, kind, text in lines]
    seen = {line.partition("] ")[2] for line in shown(*(f"[node {node}] {line}" for node, line in output))}
    assert seen == {line for _, line in output if line.startswith("[ma_boot] warning: ")}


def test_all_else_is_shown_as_it_is() -> None:
    lines = [
        "[ma_boot] exit code 0: success",
        "[node 0] [rank 0] [ma_boot] job: done in 0 s",
        "x",
        "[ma_boot] page: y",
    ]
    assert shown(*lines) == lines
    data = b"[node 0] [rank 0] \xff\r[ma_boot] \x85 x\n"
    assert BriefLines()(data) == data
