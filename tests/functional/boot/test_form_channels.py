"""Inputs and outputs of the job form: the report shows their contents, and an empty output is a loss."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.functional.node import RANK, Node

URL = "obs://bucket/from-form/"


@pytest.fixture
def node(node: Node) -> Node:
    """A node whose job form has an input and an output, with the directories that the platform creates."""
    (node.home / "data").mkdir()
    (node.home / "data" / "x").write_text("12345")
    (node.home / "model" / "empty").mkdir(parents=True)
    node.variables["MA_INPUTS"] = json.dumps({"inputs": [_entry(node, "data_url", "data")]})
    node.variables["MA_OUTPUTS"] = json.dumps({"outputs": [_entry(node, "train_url", "model")]})
    return node


def _entry(node: Node, name: str, place: str) -> dict[str, Any]:
    return {"name": name, "local_dir": str(node.home / place), "remote": {"obs": {"obs_url": URL}}}


def channels(node: Node) -> list[list[Any]]:
    events = [event for event in node.events() if event["kind"] == "channel"]
    return [[event["direction"], event["name"], event["files"], event["bytes"]] for event in events]


def test_report_and_page_show_files_bytes_and_places(node: Node) -> None:
    ended = node.boot(RANK, "write:model/RANK/result:123")
    assert ended.code == 0, ended.output
    assert f"[ma_boot] output train_url: 2 files, 6 B in {node.home}/model, for {URL} \n" in ended.output
    assert f"[ma_boot] input data_url: 1 file, 5 B in {node.home}/data, from {URL} \n" in ended.output
    assert channels(node) == [["output", "train_url", 2, 6], ["input", "data_url", 1, 5]]
    page = (node.log_dir / "modelarts-job-test-node-0-report.html").read_text()
    row = f"<code>{node.home}/model</code></td><td><code>{URL}</code></td><td>2</td><td>6 B</td>"
    assert row in page


def test_empty_output_of_the_form_ends_with_74(node: Node) -> None:
    ended = node.boot(RANK, "print:hello")
    assert ended.code == 74, ended.output
    assert "[ma_boot] output train_url: no files in" in ended.output
    *_, headline, which, hint = ended.output.splitlines()
    assert (
        headline == "[ma_boot] exit code 74: the training ended well, but left nothing at these output paths:"
    )
    assert which == f"[ma_boot]   - {node.home}/model (the job form's train_url, for {URL})"
    assert hint.startswith("[ma_boot]   -> does the training write to the path that it got?")


def test_an_empty_output_does_not_hide_the_failure_of_the_training(node: Node) -> None:
    ended = node.boot(RANK, "exit:3:0", "sleep")
    assert ended.code == 3, ended.output
    assert "[ma_boot] output train_url: no files in" in ended.output


def test_a_node_without_rank_0_may_leave_its_output_empty(node: Node) -> None:
    node.complete_table(pods=2)
    names = ("127.0.0.1", "127.0.0.1")
    node.variables.update(MA_NUM_HOSTS="2", VC_TASK_INDEX="1", VC_WORKER_HOSTS=",".join(names))
    node.index = 1
    ended = node.boot(RANK, "print:hello")
    assert ended.code == 0, ended.output
    assert "[ma_boot] output train_url: no files in" in ended.output
