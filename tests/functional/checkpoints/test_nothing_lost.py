"""Every file below an output is in OBS when the node has ended, with any name and any end of the job."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import NamedTuple

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from ma_boot.node.checkpoints.layouts.layout import UNFINISHED, matches
from ma_boot.node.checkpoints.steps import RunEnd
from path_mapping.stores.open_store import open_store
from path_mapping.stores.store import Store
from tests.functional.checkpoints.output import keys, make_nodes, start, upload
from tests.transfers import tree, write

WORDS = st.sampled_from(
    ["step_", "epoch", "rank_", "ckpt-", "model_", "best", "", "iter_000000", "foo.", "checkpoint-"]
)
NUMBERS = st.sampled_from(["", "0", "1", "2", "10", "20"])
ENDS = st.sampled_from(["", ".pt", ".bin", ".json", ".log", ".tmp", ".distcp", "_state.pt", ".ckpt"])
NAMES = st.builds(lambda word, number, end: f"{word}{number}{end}", WORDS, NUMBERS, ENDS).filter(
    lambda name: name not in ("", ".")
)
PATHS = st.lists(NAMES, min_size=1, max_size=3).map("/".join)
FRAMEWORKS = st.sampled_from(
    [
        "latest_checkpointed_iteration.txt",
        "iter_0000010/mp_rank_00/model_optim_rng.pt",
        "step_10/.metadata",
        "step_10/__0_0.distcp",
        "checkpoint-10/trainer_state.json",
        "checkpoint-10/rng_state_0.pth",
        "rank_0/net-1_10.ckpt",
        "latest",
        "global_step10/mp_rank_00_model_states.pt",
        "last.ckpt",
    ]
)


class Event(NamedTuple):
    """A node writes a file, calls `checkpoint`, or is looked at by ma_boot."""

    node: int
    path: str = ""
    content: int = 0
    step: int = -1


EVENTS = st.one_of(
    st.builds(
        lambda node, path, content: Event(node, path, content),
        st.integers(0, 1),
        st.one_of(PATHS, FRAMEWORKS),
        st.integers(0, 3),
    ),
    st.builds(lambda node, step: Event(node, step=step), st.integers(0, 1), st.sampled_from([1, 2, 10, 20])),
    st.builds(lambda node: Event(node), st.integers(0, 1)),
)
OPTIONS = st.sampled_from(
    [(("auto",), False), (("auto",), True), (("step_{step}",), False), (("megatron",), False)]
)


@pytest.mark.invariant("When a node ends, every file of an output is in OBS, or reported with exit code 74")
@given(st.lists(EVENTS, max_size=14), OPTIONS, st.integers(1, 2), st.sampled_from(RunEnd), st.booleans())
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_every_file_of_an_output_is_in_obs_at_the_end(
    events: list[Event], options: tuple[tuple[str, ...], bool], nodes: int, end: RunEnd, restore: bool
) -> None:
    directory = Path(tempfile.mkdtemp())
    try:
        (directory / "root" / "bucket").mkdir(parents=True)
        store = open_store({}, directory / "root")
        layout, is_explicit = options
        job = make_nodes(
            store, directory, nodes, layout=layout, is_explicit=is_explicit, restore=restore, interval=0.02
        )
        start(job)
        for node in job:
            node.out.mkdir(exist_ok=True)
        for event in events:
            node = job[event.node % nodes]
            if event.path:
                if can_write(node.out / event.path):
                    content = f"{event.content} of {node.node}".encode() * 9
                    write(node.out, {event.path: content})
            elif event.step >= 0:
                node.call(event.step)
            else:
                node.cycle(1)
        lost = [line for node in job for line in upload(node, end)]
        assert lost == []
        stored = {b"".join(store.read("bucket", key)) for key in keys(store) if "/.ma_boot/" not in key}
        for node in job:
            for path, content in tree(node.out).items():
                assert matches(UNFINISHED, path) or content in stored, path
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def can_write(path: Path) -> bool:
    """Returns whether a file can be at the path: no file is above it, and no directory at it."""
    return not path.is_dir() and not any(parent.is_file() for parent in path.parents)


def test_a_link_out_of_an_output_with_checkpoints_is_a_loss(store: Store, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.write_bytes(b"weights")
    for is_explicit in (False, True):
        (node,) = make_nodes(
            store, tmp_path / f"explicit {is_explicit}", 1, layout=("auto",), is_explicit=is_explicit
        )
        node.start()
        write(node.out, {"step_1/model.pt": b"here"})
        (node.out / "step_1/linked.pt").symlink_to(elsewhere)
        (lost,) = upload(node, RunEnd.WELL)
        assert "out/step_1/linked.pt" in lost
        assert "a link out of the output" in lost
