"""Metrics of a job, from the boot command to its events."""

from __future__ import annotations

import re
import socket
import sys
import time
import urllib.request
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from ma_boot.report.timeline.time_spent import OPEN, PARTS
from tests.functional.boot.stand_ins import stand_in
from tests.functional.gpus.fake_gpus import FakeGpus
from tests.functional.node import Booting, Node, eventually
from tests.unit.observe.card_outputs import NPU_910B

STEPS = """
import os, sys, time
rank, go_on = os.environ["RANK_ID"], sys.argv[1]
held = bytearray(64 << 20)
step = 0
while not os.path.exists(go_on):
    step += 1
    end = time.monotonic() + (0.3 if rank == "2" else 0.1)
    while time.monotonic() < end - 0.05 and rank == "1":
        pass
    time.sleep(max(0.0, end - time.monotonic()))
    print(f"epoch: 1 step: {step}, loss is {10 / step}", flush=True)
print(f"epoch: 1 step: {step + 1}, loss is 0.125", flush=True)
"""


@pytest.fixture
def node(tmp_path: Path) -> Node:
    node = Node(tmp_path, devices=4)
    node.complete_table()
    return node


def metrics(node: Node) -> list[dict[str, Any]]:
    return [event for event in node.events() if event["kind"] == "metrics"]


def test_events_have_usage_and_progress_of_the_ranks(node: Node, tmp_path: Path) -> None:
    script, go_on = tmp_path / "steps.py", tmp_path / "go-on"
    script.write_text(STEPS)
    booting = node.start("--metrics", "1", "--python", sys.executable, str(script), str(go_on))
    booting.until("rank 2 is slower than the others: ")
    whole = eventually(
        lambda: (
            len(samples := [event for event in metrics(node) if "rss" in event["ranks"]]) >= 3 and samples
        ),
        "three whole samples",
    )
    go_on.touch()
    ended = booting.end()
    assert ended.code == 0, ended.output
    for event in whole:
        ranks = event["ranks"]
        assert ranks["rank"] == [0, 1, 2, 3]
        assert all(size >= 64 for size in ranks["rss"] if size is not None)
        assert event["host"]["memory"][0] <= event["host"]["memory"][1]
        assert str(node.home) in event["host"]["disks"]
    busy = [sum(event["ranks"]["cpu"][rank] or 0 for event in whole[1:]) for rank in range(4)]
    assert busy[1] > 3 * max(busy[0], busy[2], busy[3]), "only rank 1 computes"
    times = whole[2]["ranks"]["step_time"]
    assert times[2] > 2 * times[0]
    slow = [event for event in node.events() if event["kind"] == "slow rank"]
    assert [event["rank"] for event in slow] == [2]
    assert metrics(node)[-1]["ranks"]["loss"] == [0.125] * 4, "the last lines count"


def test_no_events_with_metrics_off_or_in_a_short_job(node: Node, tmp_path: Path) -> None:
    go_on = tmp_path / "go-on"
    go_on.touch()
    script = tmp_path / "steps.py"
    script.write_text(STEPS)
    for options in (["--metrics", "off"], []):
        assert node.boot(*options, "--python", sys.executable, str(script), str(go_on)).code == 0
    assert metrics(node) == []


def test_user_patterns_make_series_of_their_own(node: Node, tmp_path: Path) -> None:
    own = ["--metrics", "1", "--metric", "lr=rate: ([0-9.e-]+)", "--metric", "loss=total=([0-9.]+)"]
    program = "echo epoch: 1 step: 3, loss is 9; echo rate: 1e-4; echo total=2.5; sleep 1.5"
    assert node.boot(*own, "--", "bash", "-c", program).code == 0
    ranks = metrics(node)[0]["ranks"]
    assert (ranks["step"], ranks["loss"], ranks["values"]) == ([3] * 4, [2.5] * 4, {"lr": [1e-4] * 4})


def test_the_variable_has_a_pattern_in_each_line(node: Node) -> None:
    node.variables.update(MABOOT_METRICS="1", MABOOT_METRIC="lr=rate: ([0-9.e-]+)\nloss=total: ([0-9.]+)")
    assert node.boot("--", "bash", "-c", "echo rate: 1e-4; echo total: 2.5; sleep 1.5").code == 0
    ranks = metrics(node)[0]["ranks"]
    assert (ranks["loss"], ranks["values"]) == ([2.5] * 4, {"lr": [1e-4] * 4})


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--metric", "loss=(a+"], "is no regular expression"),
        (["--metric", "loss"], "expected NAME=REGEX"),
        (["--metrics", "never"], "found 'never', expected 1 to 3600 seconds, or off"),
        (["--metrics", "0.1"], "found '0.1', expected 1 to 3600 seconds, or off"),
    ],
)
def test_invalid_options_end_the_start(node: Node, options: list[str], message: str) -> None:
    ended = node.boot(*options, "true")
    assert ended.code == 64
    assert message in ended.output


def test_a_pattern_that_takes_too_long_does_not_delay_a_stop(node: Node) -> None:
    endless = ["--metrics", "1", "--metric", "acc=(,|,,)+$", "--metric", "loss=total: ([0-9.]+)"]
    program = "printf ',%.0s' {1..480}; echo x; echo total: 2.5; exec sleep 600"
    booting = node.start(*endless, "--", "bash", "-c", program)
    booting.until("[ma_boot] warning: --metric acc is no longer used: a search for (,|,,)+$ took more than")
    eventually(lambda: metrics(node), "a sample")
    stopped = time.monotonic()
    booting.signal()
    assert booting.end().code == 143
    assert time.monotonic() - stopped < 20
    assert metrics(node)[0]["ranks"]["loss"] == [2.5] * 4


WAIT = ["--", "bash", "-c", 'echo "epoch: 1 step: 3, loss is 9"; until [[ -e $0 ]]; do sleep 0.1; done']


def url_of(booting: Booting) -> str:
    booting.until("[ma_boot] metrics: http://")
    match = re.search(rb"metrics: (http://\S+)", booting.read)
    assert match
    return match.group(1).decode()


def scraped(url: str) -> dict[str, list[float]]:
    """The values of each metric, in the order of ranks or cards."""
    with urllib.request.urlopen(url, timeout=10) as answer:
        families = text_string_to_metric_families(answer.read().decode())
        return {family.name: [sample.value for sample in family.samples] for family in families}


def test_metrics_are_served_to_prometheus_while_the_ranks_run(node: Node, tmp_path: Path) -> None:
    go_on = tmp_path / "go-on"
    booting = node.start("--metrics", "1", "--metrics-port", "127.0.0.1:0", *WAIT, str(go_on))
    url = url_of(booting)
    assert scraped(url)["ma_boot_rank_running"] == [1] * 4
    eventually(lambda: scraped(url).get("ma_boot_rank_loss") == [9] * 4, "what the ranks have printed")
    host, _, port = url[len("http://") : -len("/metrics")].rpartition(":")
    with (
        socket.create_connection((host, int(port))) as silent,
        socket.create_connection((host, int(port))) as other,
    ):
        other.sendall(b"\xff\0\r\n" * 1000)
        assert scraped(url)["ma_boot_rank_running"] == [1] * 4, "neither stops the next client"
        silent.close()
    spent = scraped(url)["ma_boot_node_spent_seconds"]
    assert 0 < spent[PARTS.index(OPEN)] < sum(spent), "what the ranks do is open before their end"
    go_on.touch()
    assert booting.end().code == 0
    with pytest.raises(OSError, match="refused"):
        scraped(url)


def test_a_port_in_use_does_not_stop_the_training(node: Node) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        at = f"127.0.0.1:{taken.getsockname()[1]}"
        ended = node.boot("--metrics", "1", "--metrics-port", at, "--", "sleep", "1.5")
    assert ended.code == 0
    assert f"[ma_boot] warning: metrics are not served at {at}: Address already in use" in ended.output
    assert len(metrics(node)) >= 1


def test_no_port_is_open_without_the_option(node: Node, tmp_path: Path) -> None:
    go_on = tmp_path / "go-on"
    booting = node.start("--metrics", "1", *WAIT, str(go_on))
    eventually(lambda: metrics(node), "a sample")
    open_files = Path(f"/proc/{booting.process.pid}/fd").iterdir()
    assert [link for link in map(Path.readlink, open_files) if str(link).startswith("socket:")] == []
    go_on.touch()
    assert booting.end().code == 0


def test_npus_are_sampled_by_npu_smi(node: Node, tmp_path: Path) -> None:
    tools = tmp_path / "tools"
    stand_in(tools, "npu-smi", NPU_910B)
    stand_in(tools, "hccn_tool", "link status: UP\n")
    node.variables["PATH"] = f"{tools}:{node.environ()['PATH']}"
    assert node.boot("--metrics", "1", "--", "sleep", "3.5").code == 0
    with_cards = [event["cards"] for event in metrics(node) if "cards" in event]
    assert with_cards == [
        {
            "card": [0, 1], "kind": "npu", "utilisation": [97.0, 0.0], "memory": [3161, 3163],
            "memory_total": [65536, 65536], "temperature": [40.0, 88.0], "power": [93.6, 310.5],
            "health": ["OK", "Alarm"], "link": ["UP", "UP"],
        }
    ], "the tool is asked every half minute at most"  # fmt: skip
    assert (tools / "npu-smi.asked").read_text() == "info\n"
    assert (tools / "hccn_tool.asked").read_text() == "-i 4 -link -g\n-i 5 -link -g\n"


@pytest.fixture
def gpus(node: Node, tmp_path: Path) -> FakeGpus:
    gpus = FakeGpus(tmp_path)
    gpus.set(count=2, gpu_1_memory=1 << 30)
    node.variables.update(gpus.variables)
    return gpus


def test_gpus_are_in_every_sample(node: Node, gpus: FakeGpus) -> None:
    assert node.boot("--metrics", "1", "--", "sleep", "4.5").code == 0
    with_cards = [event["cards"] for event in metrics(node) if "cards" in event]
    assert len(with_cards) >= 3, "not one in half a minute, as of a tool that is a process"
    assert with_cards[0] == {
        "card": [0, 1], "kind": "gpu", "utilisation": [100.0, 100.0], "memory": [5107, 1024],
        "memory_total": [81559, 81559], "temperature": [65, 65], "power": [688.0, 688.0], "health": ["OK", "OK"],
        "link": ["gen5 x16", "gen5 x16"], "clock": [1755, 1755], "throttled": ["power", "power"],
        "nvlink": ["18 of 18", "18 of 18"], "ecc": [0, 0], "remapped": [0, 0],
    }  # fmt: skip


def test_error_of_a_gpu_is_reported_once(node: Node, gpus: FakeGpus) -> None:
    booting = node.start("--metrics", "1", "--", "sleep", "5")
    eventually(lambda: metrics(node), "a sample")
    gpus.set(gpu_1_xid=79)
    ended = booting.end()
    assert ended.output.count("warning: GPU 1: Xid 79 (the GPU has fallen off the bus)") == 1, ended.output
    assert metrics(node)[-1]["cards"]["xid"] == [None, 79]


@pytest.mark.parametrize("call", ["init", "utilisation"])
def test_driver_that_hangs_delays_neither_samples_nor_the_end(node: Node, gpus: FakeGpus, call: str) -> None:
    gpus.set(**{call: "hang"})
    assert node.boot("--metrics", "1", "--", "sleep", "3.5").code == 0
    assert len(metrics(node)) >= 2
    run = next(event for event in node.events() if event["kind"] == "phase-end" and event["phase"] == "run")
    assert run["seconds"] < 6


def test_driver_that_fails_leaves_the_other_samples(node: Node, gpus: FakeGpus) -> None:
    gpus.set(init="unsupported")
    ended = node.boot("--metrics", "1", "--", "sleep", "3.5")
    assert ended.code == 0
    assert "warning: a sample" not in ended.output
    assert metrics(node)
    assert not any("cards" in event for event in metrics(node))


def test_hanging_tool_does_not_delay_the_end(node: Node, tmp_path: Path) -> None:
    tools = tmp_path / "tools"
    stand_in(tools, "npu-smi", "")
    (tools / "npu-smi").write_text("#!/bin/sh\nexec sleep 100\n")
    node.variables["PATH"] = f"{tools}:{node.environ()['PATH']}"
    booting = node.start("--metrics", "1", "--", "sleep", "2.5")
    ended = booting.end()
    assert ended.code == 0
    run = next(event for event in node.events() if event["kind"] == "phase-end" and event["phase"] == "run")
    assert run["seconds"] < 6
