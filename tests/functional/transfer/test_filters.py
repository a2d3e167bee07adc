"""Patterns that select no file of a route end a job and `ma_boot sync` with an error that names them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.functional.node import RANK, Ended, Node
from tests.functional.transfer.sync_command import sync
from tests.transfers import write

SELECTED = {"obs": "obs://bucket/data/", "include": ["*.tfrecord"]}


@pytest.fixture
def node(tmp_path: Path) -> Node:
    node = Node(tmp_path, devices=1)
    node.complete_table()
    write(node.obs, {"bucket/data/a.bin": b"a", "bucket/data/b.bin": b"b", "bucket/data/c.bin": b"c"})
    return node


def boot(node: Node, inputs: dict[str, Any], outputs: dict[str, Any], *actions: str) -> Ended:
    return node.boot(*node.mapping(inputs, outputs), RANK, *actions)


def test_input_whose_patterns_select_no_object_ends_with_66_before_the_training(node: Node) -> None:
    ended = boot(node, {"data": SELECTED}, {}, "print:started")
    assert ended.code == 66, ended.output
    assert "none of its 3 objects (a.bin, b.bin, ...) is selected by include ['*.tfrecord']" in ended.output
    assert "obs://bucket/data/ (for data)" in ended.output
    assert "started" not in ended.output


def test_exclude_that_leaves_no_object_is_named_too(node: Node) -> None:
    excluded = {"obs": "obs://bucket/data/a.bin", "exclude": ["data*"]}
    ended = boot(node, {"data": excluded}, {})
    assert ended.code == 66, ended.output
    assert "none of its 1 object (data) is selected by exclude ['data*']" in ended.output


def test_optional_input_whose_patterns_select_no_object_is_only_reported(node: Node) -> None:
    ended = boot(node, {"data": {**SELECTED, "required": False}}, {}, "print:started")
    assert ended.code == 0, ended.output
    assert "is selected by include ['*.tfrecord']" in ended.output
    assert "started" in ended.output


def test_shard_without_files_is_no_error(node: Node) -> None:
    node.variables.update(MA_NUM_HOSTS="2", VC_TASK_INDEX="1")
    node.index = 1
    node.complete_table(pods=2)
    ended = boot(node, {"data": {**SELECTED, "include": ["a.bin"], "shard": True}}, {}, "print:started")
    assert ended.code == 0, ended.output


def test_output_whose_patterns_select_no_file_ends_with_74(node: Node) -> None:
    filtered = {"obs": "obs://bucket/out/", "include": ["*.ckpt"], "exclude": ["tmp/"]}
    ended = boot(node, {}, {"out": filtered}, "write:out/a.pt:x", "write:out/tmp/b.ckpt:x")
    assert ended.code == 74, ended.output
    assert "the patterns of these outputs select none of their files:" in ended.output
    named = "none of its 2 files (a.pt, tmp/b.ckpt) is selected by include ['*.ckpt'], exclude ['tmp/']"
    assert f"out (for obs://bucket/out/): {named}" in ended.output


def test_directory_without_files_is_an_empty_output(node: Node) -> None:
    (node.home / "out" / "empty").mkdir(parents=True)
    ended = boot(node, {}, {"out": "obs://bucket/out/"})
    assert ended.code == 74, ended.output
    assert "left nothing at these output paths" in ended.output


def test_both_kinds_of_empty_outputs_are_reported_together(node: Node) -> None:
    filtered = {"obs": "obs://bucket/out/", "include": ["*.ckpt"]}
    outputs = {"out": filtered, "ouput": "obs://bucket/typo/"}
    ended = boot(node, {}, outputs, "write:out/a.pt:x")
    assert ended.code == 74, ended.output
    assert "ouput (for obs://bucket/typo/)" in ended.output
    assert "none of its 1 file (a.pt) is selected by include ['*.ckpt']" in ended.output


def test_output_whose_selected_files_were_uploaded_and_removed_is_not_empty(node: Node) -> None:
    filtered = {"obs": "obs://bucket/out/", "include": ["*.ckpt"]}
    mapping = node.mapping({}, {"out": filtered})
    write(node.home, {"out/a.ckpt": b"x", "out/log": b"x"})
    assert node.boot(*mapping, RANK).code == 0
    (node.home / "out" / "a.ckpt").unlink()
    assert node.boot(*mapping, RANK).code == 0


@pytest.mark.parametrize("option", ["required", "failed"])
def test_empty_output_is_only_reported_where_nothing_is_expected(node: Node, option: str) -> None:
    filtered = {"obs": "obs://bucket/out/", "include": ["*.ckpt"], "required": option != "required"}
    actions = ["write:out/a.pt:x", *(["exit:3:all"] if option == "failed" else [])]
    ended = boot(node, {}, {"out": filtered}, *actions)
    assert ended.code == (3 if option == "failed" else 0), ended.output
    assert "is selected by include ['*.ckpt']" in ended.output


def test_sync_obeys_the_same_rule(tmp_path: Path) -> None:
    write(tmp_path, {"obs/bucket/data/a": b"a", "out/b": b"b"})
    down = "input: {in: {obs: 'obs://bucket/data/', include: ['*.x']}}"
    up = "output: {out: {obs: 'obs://bucket/out/', include: ['*.x']}}"
    for way, mapping, code in (("download", down, 66), ("plan", down, 66), ("upload", up, 74)):
        done = sync(tmp_path, way, mapping, "--obs-root", "obs")
        assert done.returncode == code, done.stdout
        assert "is selected by include ['*.x']" in done.stdout
