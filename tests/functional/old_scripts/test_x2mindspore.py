"""A project that X2MindSpore migrated: its start script's arguments, its path mapping, and no loss of a file.

The path rules are those that the path manager's own tests name; P1 to P9 are its losses. P3, a missing input, and
P5 after a failure are in test_boot.
"""

from __future__ import annotations

import json
import os
import re
import signal
from pathlib import Path

import pytest

from ma_boot.platform.rank_table import convert, fake, parse
from tests.functional.node import RANK, Ended, Node, eventually

CONFIG = """\
PATH_MAPPING_CONFIG = {
    'input': {
        # fetched before the training, 'local path': 'obs or s3 URL'
        INPUTS
    },
    'output': {
        # sent after it
        OUTPUTS
    }
}
"""


@pytest.fixture
def node(tmp_path: Path) -> Node:
    node = Node(tmp_path, variables={"RANK_TABLE_FILE": ""})
    (node.home / "rank_table.json").write_text(convert(parse(fake(1, 2))).dumps())
    for name in (
        "dataset/imagenet/a.jpg",
        "dataset/imagenet/val/b.jpg",
        "dataset/imagenet2/c.jpg",
        "dataset/labels.txt",
    ):
        (node.obs / name).parent.mkdir(parents=True, exist_ok=True)
        (node.obs / name).write_text(name)
    (node.obs / "outputs").mkdir()
    return node


def start_line(node: Node, inputs: str, outputs: str) -> list[str]:
    """`run_distributed_ascend.sh rank_table.json 2 0 0` with its `path_mapping_config.py`."""
    (node.home / "path_mapping_config.py").write_text(
        CONFIG.replace("INPUTS", inputs).replace("OUTPUTS", outputs)
    )
    return [
        "--rank-table-file", "rank_table.json", "--rank-size", "2", "--rank-start", "0", "--device-start", "0",
        "--path-mapping", "path_mapping_config.py", "--obs-root", str(node.obs), RANK,
    ]  # fmt: skip


def boot(node: Node, inputs: str, outputs: str, *words: str) -> Ended:
    return node.boot(*start_line(node, inputs, outputs), *words)


def sent(node: Node) -> dict[str, str]:
    root = node.obs / "outputs"
    return {
        str(path.relative_to(root)): path.read_text() for path in sorted(root.rglob("*")) if path.is_file()
    }


@pytest.mark.parametrize(
    "local", ["data/imagenet", "data/imagenet/", "./data/imagenet", "{root}/home/data/imagenet"]
)
@pytest.mark.parametrize(
    "remote", ["obs://dataset/imagenet", "obs://dataset/imagenet/", "s3://dataset/imagenet"]
)
def test_relative_input_is_downloaded_without_its_namesake(node: Node, local: str, remote: str) -> None:
    """P2: a relative input is not skipped; `imagenet2` has the same prefix, and is another input."""
    local = local.replace("{root}", str(node.root))
    ended = boot(node, f"{local!r}: {remote!r},", "", "print:x")
    assert ended.code == 0, ended.output
    # Without ma_boot's own record, whose name begins with a dot.
    files = [path for path in (node.home / "data").rglob("[!.]*") if path.is_file()]
    names = {str(path.relative_to(node.home / "data")) for path in files}
    assert names == {"imagenet/a.jpg", "imagenet/val/b.jpg"}


def test_single_files_are_mapped_in_and_out(node: Node) -> None:
    out = node.home / "result.txt"
    ended = boot(
        node, "'data/labels.txt': 'obs://dataset/labels.txt',", "'result.txt': 'obs://outputs/best.txt',", f"write:{out}:done"
    )  # fmt: skip
    assert ended.code == 0, ended.output
    assert (node.home / "data" / "labels.txt").read_text() == "dataset/labels.txt"
    assert sent(node) == {"best.txt": "done"}


@pytest.mark.parametrize("local", ["./checkpoints", "checkpoints/"])
@pytest.mark.parametrize("remote", ["obs://outputs/", "obs://outputs/run1/ckpt", "obs://outputs/run1/ckpt/"])
def test_output_target_need_not_exist(node: Node, local: str, remote: str) -> None:
    """P4 and P6: the file of each rank is uploaded, once."""
    ended = boot(node, "", f"{local!r}: {remote!r},", f"write:{node.home}/checkpoints/RANK.ckpt:x")
    assert ended.code == 0, ended.output
    below = remote[len("obs://outputs/") :].rstrip("/")
    assert sent(node) == {os.path.join(below, f"{rank}.ckpt"): "x" for rank in (0, 1)}
    assert re.search(r"outputs: done.* 2 files,", ended.output)


def test_inputs_are_downloaded_once_for_all_ranks(node: Node) -> None:
    """P1."""
    ended = boot(node, "'data': 'obs://dataset/imagenet',", "", "print:x")
    events = [event for event in node.events() if event["kind"] == "transfer"]
    assert [(event["direction"], event["files"]) for event in events] == [("download", 2)], ended.output


def test_outputs_are_uploaded_after_sigterm(node: Node) -> None:
    """P5: SIGTERM does not run atexit handlers."""
    line = start_line(node, "", "'out': 'obs://outputs/',")
    running = node.start(*line, f"write:{node.home}/out/RANK:x", f"ready:{node.root}/pid", "sleep")
    eventually(lambda: len(list(node.root.glob("pid.*"))) == 2, "both ranks")
    running.signal(signal.SIGTERM)
    ended = running.end()
    assert ended.code == 143, ended.output
    assert sent(node) == {"0": "x", "1": "x"}


def test_failed_upload_does_not_block_other_outputs_and_sets_the_exit_code(node: Node) -> None:
    """P7, P8."""
    (node.obs / "outputs" / "a").write_text("a file where a directory is wanted")
    outputs = "'a': 'obs://outputs/a/b/', 'b': 'obs://outputs/b/',"
    ended = boot(node, "", outputs, f"write:{node.home}/a/RANK:x", f"write:{node.home}/b/RANK:x")
    assert ended.code == 74, ended.output
    assert "not every output was uploaded" in ended.output
    assert {"b/0", "b/1"} <= set(sent(node))


def test_layout_is_that_of_the_generated_script(node: Node) -> None:
    """P9, retries and checks of each file, is in tests/fault."""
    ended = boot(node, "", "", "print:trained", "print-environment")
    assert ended.code == 0, ended.output
    for rank in ("0", "1"):
        log = (node.home / f"device_{rank}" / f"train{rank}.log").read_text()
        seen = json.loads(log.splitlines()[1])
        assert (seen["RANK_ID"], seen["DEVICE_ID"], seen["RANK_SIZE"]) == (rank, rank, "2")
    (page,) = node.log_dir.glob("*-report.html")
    assert page.read_text().count("<pre>trained\n") == 2, (
        "its own logs, though they are not beside the events"
    )
