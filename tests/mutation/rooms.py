"""The rooms that are mutated, each with the tests that have to notice, the quickest first."""

from __future__ import annotations

from typing import Mapping, NamedTuple, Tuple


class Room(NamedTuple):
    """A folder of the tree, its tests, and how many of its mutants are drawn; 0 for all."""

    folder: str
    tests: Tuple[str, ...]
    sample: int = 0


ROOMS: Mapping[str, Room] = {
    "rank_table": Room("ma_boot/rank_table", ("tests/unit/rank_table",), 200),
    "planning": Room(
        "path_mapping/planning",
        (
            "tests/unit/path_mapping/test_plan.py",
            "tests/fault/test_second_run.py",
            "tests/fault/test_resume.py",
        ),
        100,
    ),
    "localfs": Room(
        "path_mapping/localfs",
        (
            "tests/unit/path_mapping/test_parts.py",
            "tests/unit/path_mapping/test_plan.py",
            "tests/functional/transfer/test_target_dir.py",
            "tests/fault/test_resume.py",
        ),
        80,
    ),
    "supervisor": Room("ma_boot/supervisor", ("tests/unit/supervisor", "tests/functional/supervisor"), 40),
    "reporting": Room(
        "ma_boot/reporting", ("tests/unit/reporting", "tests/functional/supervisor/test_output.py"), 100
    ),
}
