"""`should_save()` in a job of two nodes: all ranks answer True at the same step, whatever has asked for it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.functional.node import eventually
from tests.functional.rehearsal.jobs import SHAPE, end, node_events, start, write

TRAINING = [
    "import random",
    "from pathlib import Path",
    "from ma_boot.training import should_save",
    "pauses, place = random.Random(rank), Path(os.environ['SAVES'])",
    "for step in range(1, 100000):",
    "    time.sleep(pauses.random() / 25 * (1 + rank % 2))",
    "    if should_save():",
    "        place.joinpath(f'writing-{rank}').write_text(str(step))",
    "        place.joinpath(f'writing-{rank}').rename(place / f'saved-{rank}')",
    "    if place.joinpath('over').exists(): sys.exit()",
]


def saved(place: Path) -> list[str]:
    """The step at which each rank has saved."""
    files = [place / f"saved-{rank}" for rank in range(4)]
    eventually(lambda: all(file.exists() for file in files), "all ranks save", 60)
    return [file.read_text() for file in files]


@pytest.mark.parametrize("by", ["file of node 0", "file of node 1", "time limit"])
def test_all_ranks_of_all_nodes_save_at_the_same_step(laptop: Path, by: str) -> None:
    place = laptop / "saves"
    place.mkdir()
    more = {"SAVES": str(place), **({"MABOOT_TIME_LIMIT": "6"} if by == "time limit" else {})}
    process = start(laptop, *SHAPE, write(laptop, *TRAINING), more=more)
    if by != "time limit":
        eventually(lambda: len(node_events(laptop, "start")) == 4, "all ranks run", 60)
        (logs,) = laptop.glob(f"ma_boot-rehearsal/*/node-{by[-1]}/home/ma-user/modelarts/log")
        (logs / "save").touch()
    steps = saved(place)
    assert len(set(steps)) == 1, steps
    if by != "time limit":
        eventually(lambda: not (logs / "save").exists(), "the file is gone")
    (place / "over").touch()
    ended = end(process)
    assert ended.code == 0, ended.output
    calls = [event["call"] for event in node_events(laptop, "save") if event["call"]]
    assert calls == [int(steps[0])] * 2, "each node says so once"


def test_without_a_token_no_rank_is_asked_and_a_line_says_why(laptop: Path) -> None:
    place = laptop / "saves"
    place.mkdir()
    (place / "over").touch()
    more = {"SAVES": str(place), "MABOOT_TIME_LIMIT": "1", "MABOOT_JOB_TOKEN": ""}
    ended = end(start(laptop, *SHAPE, write(laptop, *TRAINING), more=more))
    assert ended.code == 0, ended.output
    assert "2 nodes need a token to agree on a step (MABOOT_JOB_TOKEN)" in ended.output
