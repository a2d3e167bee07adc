"""No file of an output is lost, whatever its name; and a start resumes from what was a complete checkpoint.

Each layout is tried with `auto` and with calls of `checkpoint`, on one node and on two, for the ends of a job.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from ma_boot.node.checkpoints.by_hand import StoredCheckpoints
from ma_boot.node.checkpoints.steps import RunEnd
from path_mapping.mapping.routes import ObsUrl
from path_mapping.stores.store import Store
from path_mapping.workers.retry import RetryPolicy
from tests.functional.checkpoints.output import keys, make_nodes, printed, start, step_of, upload
from tests.transfers import tree, write

pytestmark = pytest.mark.parametrize("store", ["directory"], indirect=True)

# The names of a step: `{s}` is the step, `{r}` a rank. Every rank writes each name with its number.
LAYOUTS: dict[str, Sequence[str]] = {
    "step_N/model.pt": ["step_{s}/model.pt"],
    "stepN/": ["step{s}/weights.bin"],
    "epoch_N/": ["epoch_{s}/model.ckpt", "epoch_{s}/optimizer.ckpt"],
    "checkpoint_N/": ["checkpoint_{s}/pytorch_model.bin"],
    "ckpt-N/": ["ckpt-{s}/state"],
    "iter-N/rankR/": ["iter-{s}/rank{r}/model.pt"],
    "step_N/rank_R.ckpt": ["step_{s}/rank_{r}.ckpt"],
    "step_N/model_R.pt": ["step_{s}/model_{r}.pt"],
    "N/w.bin": ["{s}/w.bin"],
    "N.pt": ["{s}.pt"],
    "best.pt": ["best.pt"],
    "last_N/": ["last_{s}/model.pt"],
    "global_N/": ["global_{s}/model.pt", "global_{s}/a/b.pt"],
    "lora_N/": ["lora_{s}/adapter.safetensors"],
    "rank_R/step_N/": ["rank_{r}/step_{s}/w.bin"],
    "rank_R/N.pt": ["rank_{r}/{s}.pt"],
    "run_7/step_N.pt": ["run_7/step_{s}.pt"],
    "deep/er/epoch_N/": ["deep/er/epoch_{s}/m.pt"],
    "epoch_0/step_N/": ["epoch_0/step_{s}/m.pt"],
    "model_N.pth, optim_N.pth": ["model_{s}.pth", "optim_{s}.pth"],
    "epoch_1_step_N": ["epoch_1_step_{s}.safetensors"],
    "zero-padded": ["iteration_{s:08d}/m.pt"],
    "fabric_N.ckpt/": ["fabric_{s}.ckpt/rank{r}.pt"],
    "N/R.pt": ["{s}/{r}.pt"],
    "N/layer_K.pt": [f"{{s}}/layer_{layer}.pt" for layer in range(5)],
    "a name with a space": ["my step_{s}/the model.pt"],
    "shards": [f"ckpt_{{s}}/model-{number:05}-of-00003.bin" for number in (1, 2, 3)],
    "step_N/ and latest.pt": ["step_{s}/model.pt", "latest.pt"],
    "weights without a suffix": ["step_{s}/weights", "step_{s}/META"],
    "word_N/": ["foo_{s}/model.pt"],
}
NO_STEP = {"best.pt", "latest.pt"}  # only a call of `checkpoint` can say of which step they are
STEPS = (5, 10, 15)


class Training:
    """The nodes of a job that saves by a layout, two ranks on each node."""

    def __init__(
        self, store: Store, base: Path, names: Sequence[str], nodes: int, by_calls: bool, **more: object
    ) -> None:
        options = {"layout": ("auto",), "is_explicit": by_calls, "interval": 0.06, **more}
        self.nodes = make_nodes(store, base, nodes, **options)
        for node in self.nodes:
            node.ranks = (2 * node.node, 2 * node.node + 1)
        self.names, self.by_calls, self.store = names, by_calls, store
        self.saved: dict[int, list[dict[str, bytes]]] = {}  # by step, for each node

    def start(self) -> list[str | None]:
        return [step_of(restored) for restored in start(self.nodes)]

    def save(self, step: int) -> None:
        """All ranks save a step, each of them its own content, and call `checkpoint` for it."""
        self.saved[step] = []
        for node in self.nodes:
            files = {
                name.format(s=step, r=rank): f"{name} {step} of {node.ranks}".encode() * 50
                for name in self.names
                for rank in node.ranks
            }
            write(node.out, files)
            self.saved[step].append(files)
            for rank in node.ranks if self.by_calls else ():
                node.call(step, rank)
        for node in self.nodes:
            node.cycle(1)

    def save_half(self, step: int) -> None:
        """The first rank of each node has saved its first file of a step, as the job ends."""
        for node in self.nodes:
            named = {
                name.format(s=step, r=rank) for name in self.names if has_step(name) for rank in node.ranks
            }
            if len(named) > 1:
                write(node.out, {min(named): b"half"})

    def look(self, times: int = 4) -> None:
        """Time passes in which nothing is written."""
        for _ in range(times):
            for node in self.nodes:
                node.ended.wait(0.016)
                node.cycle(1)

    def end(self, ending: RunEnd) -> list[str]:
        """The processes end; returns what each node says that it lost."""
        return [lost for node in self.nodes for lost in upload(node, ending)]

    def is_in_obs(self, content: bytes) -> bool:
        return any(
            b"".join(self.store.read("bucket", key)) == content
            for key in keys(self.store)
            if "/.ma_boot/" not in key
        )


def has_step(name: str) -> bool:
    return "{s" in name


ENDS = [(layout, end) for end in RunEnd for layout in LAYOUTS]
KILLED = [(layout, None) for layout in ("step_N/model.pt", "N/w.bin", "N.pt", "step_N/model_R.pt", "best.pt")]


@pytest.mark.invariant("When a node ends, every file of an output is in OBS, or reported with exit code 74")
@pytest.mark.parametrize("nodes", [1, 2])
@pytest.mark.parametrize("by_calls", [False, True], ids=["auto", "calls"])
@pytest.mark.parametrize(("layout", "end"), [*ENDS, *KILLED])
def test_no_file_is_lost_and_a_start_resumes(
    store: Store, tmp_path: Path, layout: str, by_calls: bool, nodes: int, end: RunEnd | None
) -> None:
    """Without an `end` ma_boot is killed as well, and nothing is uploaded after that."""
    names = LAYOUTS[layout]
    training = Training(store, tmp_path / "first", names, nodes, by_calls)
    training.start()
    for step in STEPS:
        training.save(step)
        training.look()
    if end is not RunEnd.WELL:
        training.save_half(20)
    if end is not None:
        assert training.end(end) == []
        for node in training.nodes:
            assert all(map(training.is_in_obs, tree(node.out).values()))
    for files in training.saved[STEPS[-1]]:
        expected = [content for path, content in files.items() if end or by_calls or path not in NO_STEP]
        assert all(map(training.is_in_obs, expected))

    stored = StoredCheckpoints(store, ObsUrl("bucket", "ckpt"), threading.Event(), RetryPolicy())
    complete = [row.checkpoint for row in stored.rows() if row.checkpoint is not None]
    assert not [problem for each in complete for problem in stored.problems(each, contents=True)]

    again = Training(store, tmp_path / "second", names, nodes, by_calls)
    restored = again.start()
    if not by_calls and not any(map(has_step, names)):
        assert restored == [None] * nodes
        assert printed(training.nodes, "no start resumes from them")
        return
    assert {int(str(step).rsplit("_", 1)[-1]) for step in restored} == {STEPS[-1]}
    for node, files in zip(again.nodes, training.saved[STEPS[-1]]):
        here = node.files()
        restorable = {path: files[path] for path in files if by_calls or path not in NO_STEP}
        assert {path: here.get(path) for path in restorable} == restorable
        assert not [path for path in here if "20" in path], "half of a step"


@pytest.mark.parametrize(
    ("names", "named"),
    [(["best.pt"], "best.pt"), (["model_{r}.pt"], "model_0.pt"), (["step_{s}/w.pt", "last.pt"], "last.pt")],
)
def test_a_name_that_shows_no_step_is_reported_at_the_second_step(
    store: Store, tmp_path: Path, names: Sequence[str], named: str
) -> None:
    training = Training(store, tmp_path, names, nodes=2, by_calls=False)
    training.start()
    for step in STEPS[:2]:
        assert not printed(training.nodes, "show no step")
        training.save(step)
        training.look()
    lines = printed(training.nodes[:1], "checkpoints: the names of ")
    assert len(lines) == 1
    assert named in lines[0]
    assert "checkpoint(step)" in lines[0]
    training.save(STEPS[2])
    training.look()
    assert len(printed(training.nodes[:1], "show no step")) == 1


@pytest.mark.parametrize("nodes", [1, 2])
def test_a_step_that_is_saved_during_a_look_has_its_own_files(
    store: Store, tmp_path: Path, nodes: int
) -> None:
    """The look at the disk and the calls of `checkpoint` overlap in all ways."""
    job = make_nodes(store, tmp_path, nodes, layout=("auto",), is_explicit=True, interval=0.02)
    start(job)
    steps = range(1, 61)

    def train() -> None:
        for step in steps:
            for node in job:
                write(node.out, {f"step_{step}/{name}": b"%d" % step for name in "abc"})
                node.call(step)

    with ThreadPoolExecutor(1) as pool:
        trained = pool.submit(train)
        while not trained.done():
            for node in job:
                node.cycle(1)
        trained.result()
    for node in job:
        node.end()
    stored = StoredCheckpoints(store, ObsUrl("bucket", "ckpt"), threading.Event(), RetryPolicy())
    files = {
        row.checkpoint.name.step: row.checkpoint.files for row in stored.rows() if row.checkpoint is not None
    }
    assert files == dict.fromkeys(steps, 3 * nodes)
    assert not printed(job, "not published")


def test_removing_old_steps_of_one_name_keeps_the_newest_intact(store: Store, tmp_path: Path) -> None:
    training = Training(store, tmp_path, ["best.pt"], nodes=2, by_calls=True, keep=1)
    training.start()
    for step in STEPS:
        training.save(step)
        training.look()
    assert training.end(RunEnd.WELL) == []
    stored = StoredCheckpoints(store, ObsUrl("bucket", "ckpt"), threading.Event(), RetryPolicy())
    (row,) = stored.rows()
    assert row.checkpoint is not None
    assert (row.step, stored.problems(row.checkpoint, contents=True)) == (str(STEPS[-1]), [])
    assert len([key for key in keys(store) if "/.ma_boot/" not in key]) == 2, "one file of each node"
