"""Which lines of the nodes a rehearsal prints without `--verbose`."""

from __future__ import annotations

import pytest

from ma_boot.rehearsal.brief import BriefLines


def shown(*lines: str) -> list[str]:
    data = "".join(f"{line}\n" for line in lines).encode()
    return BriefLines()(data).decode().splitlines()


@pytest.mark.parametrize(
    ("text", "nodes"),
    [
        ("platform: ModelArts on Volcano", ""),
        ("job: done in 0.0 s: x, node 0 of 2", ""),
        ("environment: done in 0.0 s: /usr/bin/python3 by PATH", "0"),
        ("inputs: done in 1.0 s: 1 file", "0"),
        ("rank table: done in 2 min 48 s: ranks 0-3 of 8", "0"),
        ("launch: done in 0.0 s: 4 processes", "0"),
        ("run: done in 0.9 s: 4 processes ended with 0", ""),
        ("run: stopped in 0.9 s: 0 processes ended with 0, 4 stopped", ""),
        ("run: failed in 0.9 s: rank 0 ended with exit code 1", "0"),
        ("waiting for /x/jobstart_hccl.json: the file is empty (9 s of 1800 s)", ""),
        ("waiting for /x/jobstart_hccl.json: the file is empty (10 s of 1800 s)", "0"),
        ("checkpoint step 3: published in 0.1 s: 2 files, 3 kB", ""),
        ("logs: /x", ""),
        ("page: /x", ""),
        ("exit code 0: success", ""),
        ("exit code 3: rank 0 ended with exit code 3", "0"),
        ("warning: x", "0"),
    ],
)
def test_of_the_nodes_lines(text: str, nodes: str) -> None:
    lines = [f"[node {node}] [ma_boot] {text}" for node in (0, 1)]
    assert shown(*lines) == [line for line in lines if line[6] in nodes]


def test_what_is_below_a_line_shares_its_fate() -> None:
    first = ["[node 1] [ma_boot] warning: x", "[node 1] [ma_boot]   - a"]
    other = ["[node 0] [ma_boot] warning: x", "[node 0] [ma_boot]   - b"]
    last = ["[node 0] [ma_boot] warning: y", "[node 0] [ma_boot]   - a"]
    assert shown(*first, *other, *last) == [*first, *last]


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
