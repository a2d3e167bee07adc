"""Seeded faults of two rehearsed nodes on which a real framework trains: what the job has lost by them, and when it went on."""

from __future__ import annotations

import os
import random
from collections import defaultdict
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.fault.checkpoint_kills import Training
from tests.functional.frameworks.checkpoint_jobs import PATIENCE, Job, digests, documents
from tests.functional.node import Ended, events_in

STEPS = 12  # which a training makes in all
NODES, DEVICES = 2, 2
STOP_SECONDS = 5.0
LATEST = 7.0  # of a second fault: a node whose processes have all ended well ends, and cannot start again
AGAIN_SECONDS = 2.0  # after the end of the last rank, until all have started again
KINDS = ("raise", "hang", "kill")  # the first fault of three seeds in a row
MAPPING = """
output:
  checkpoints: {obs: 'obs://bucket/ckpt/', checkpoint: auto, keep: 100, restore: latest, interval: 1}
"""


class Case(NamedTuple):
    """The faults of one job: options of ma_boot, and of the training."""

    options: list[str]
    training: list[str]


class Restart(NamedTuple):
    """Times of a restart: the failure, the end of the last rank, the start of all ranks, and the next step.

    In seconds of one clock; `stepped` is None for an attempt that failed before its first step.
    """

    failed: float
    ended: float
    started: float
    stepped: float | None


def case(seed: int) -> Case:
    """The case of a seed: a fault after the first steps, and perhaps one of another rank at any time.

    Both come before the end of an attempt, also of one that resumes from the middle. The first seeds have one
    fault each: CI is to be quick.
    """
    chance = random.Random(seed)
    first = KINDS[seed % len(KINDS)]
    ranks = chance.sample(range(NODES * DEVICES), 2)
    if first == "raise":  # in the first attempt only, which another fault might end before
        return Case([], ["--raise", f"{ranks[0]}:{chance.randint(3, STEPS)}"])
    faults = [(first, f"line={chance.randint(6, STEPS)}")]
    if seed >= len(KINDS) and chance.random() < 0.5:
        faults.append((chance.choice(KINDS[1:]), f"at={chance.uniform(1, LATEST):.1f}s"))
    options = ["--hang-timeout", "20", "--hang-action", "stop"] if "hang" in dict(faults) else []
    words = {"hang": "hang", "kill": chance.choice(["kill", "kill signal=SEGV"])}
    for (kind, moment), rank in zip(faults, ranks):
        options += ["--fault", f"{words[kind]} rank={rank} {moment}"]
    return Case(options, [])


def run(root: Path, training: Training, seed: int | None) -> tuple[Job, Ended]:
    """The job with the faults of a seed, or an undisturbed one, and its end."""
    (root / "mapping.yaml").write_text(MAPPING)
    faults = Case([], []) if seed is None else case(seed)
    job = Job(root, [
        *training.options, "--path-mapping", "mapping.yaml", "--stop-timeout", str(STOP_SECONDS),
        "--max-restarts", "6", *faults.options,
        training.command[0], str(STEPS), "0.3", *faults.training,
    ])  # fmt: skip
    try:
        ended = job.ended(job.start(), 2 * PATIENCE)  # it starts more than once
    finally:
        job.clean_up()
    assert ended.code == 0, f"{faults}\n{ended.output}"
    return job, ended


def facts(ended: Ended, word: str, name: str) -> dict[tuple[int, Any], Any]:
    """Returns the printed facts of each step: the same in every attempt that has made it."""
    known: dict[tuple[int, Any], Any] = {}
    for line in documents(ended.output, word):
        value = known.setdefault((line["rank"], line["step"]), line[name])
        assert value == line[name], f"{word}: other than before: {line}"
    return known


def seeds(of_ci: int, count: int) -> list[Any]:
    """The parameters of a test: so many seeds from SEED on, of which CI has the first few."""
    first = int(os.environ.get("SEED") or 0)
    return [first + n if n < of_ci else pytest.param(first + n, marks=pytest.mark.kill) for n in range(count)]


def check(
    root: Path, training: Training, seed: int, undisturbed: Ended, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The job of a seed loses nothing, and is quick to go on; prints how quick."""
    monkeypatch.setenv("MABOOT_START_SECONDS", "0")
    job, ended = run(root, training, seed)
    restarts = compare(job, ended, undisturbed, training)
    for restart in restarts:
        step = "none" if restart.stepped is None else f"{restart.stepped - restart.failed:.1f} s"
        print(
            f"seed {seed}, {case(seed)}: stopped in {restart.ended - restart.failed:.1f} s, "
            f"started {restart.started - restart.ended:.1f} s later; failure to first step: {step}"
        )
    assert all(restart.started - restart.ended <= AGAIN_SECONDS for restart in restarts), restarts


def compare(job: Job, ended: Ended, undisturbed: Ended, training: Training) -> list[Restart]:
    """Asserts that the newest complete checkpoints are those of the undisturbed job; returns its restarts."""
    losses, expected = facts(ended, "step", "loss"), facts(undisturbed, "step", "loss")
    assert losses == expected
    assert sum(losses[key] for key in sorted(losses)) == sum(expected[key] for key in sorted(expected))
    weights = facts(ended, "saved", "weights").items()
    whole = facts(undisturbed, "saved", "weights")
    assert weights <= whole.items(), "a killed rank may have saved a step without printing it"
    assert [rank for (rank, _), _ in weights].count(0) > 0
    for line in documents(ended.output, "restored"):
        _compare_restored(job, line, training)
    restarts = _restarts(job, ended)
    assert restarts, ended.output
    return restarts


def _compare_restored(job: Job, line: dict[str, Any], training: Training) -> None:
    """Asserts that the rank has found exactly the files of the newest checkpoint of earlier attempts."""
    earlier = [whole for whole in job.complete_checkpoints() if whole["order"][0] < int(line["attempt"])]
    if not earlier:
        assert (line["step"], line["files"]) == (None, {})
        return
    newest, rank_of = earlier[0], training.rank_of
    source = f"obs://bucket/ckpt/{newest['attempt']}"
    assert (line["step"], line["source"]) == (newest["step"], source), f"rank {line['rank']}"
    expected = {
        path: digest
        for path, digest in digests(newest["files"]).items()
        if rank_of is None or rank_of(path) // DEVICES == line["rank"] // DEVICES
    }
    assert line["files"] == expected, f"rank {line['rank']}"


def _restarts(job: Job, ended: Ended) -> list[Restart]:
    """The restarts of a job; all of its nodes have made each of them."""
    attempts = [_attempts(job, node) for node in range(NODES)]
    assert len({len(events) for events in attempts}) == 1, "all nodes restart as often"
    stepped: dict[int, set[float]] = defaultdict(set)
    for line in documents(ended.output, "step"):
        stepped[int(line["attempt"])].add(line["at"])
    pairs = [
        [event for of_node in attempts for event in of_node[number]] for number in range(len(attempts[0]))
    ]
    return [
        Restart(
            min(_failures(before)),
            max(event["ended_ns"] for event in before if event["kind"] == "exit") / 1e9,
            max(event["monotonic_ns"] for event in after if event["kind"] == "start") / 1e9,
            min(stepped[number], default=None),
        )
        for number, (before, after) in enumerate(zip(pairs, pairs[1:]), start=2)
    ]


def _attempts(job: Job, node: int) -> list[list[dict[str, Any]]]:
    """The events of a node, one list for each attempt."""
    (file,) = job.root.glob(f"nodes-0/*/node-{node}/home/ma-user/modelarts/log/*-events.jsonl")
    attempts: list[list[dict[str, Any]]] = [[]]
    for event in events_in(file):
        if event["kind"] == "restart":
            attempts.append([])
        attempts[-1].append(event)
    return attempts


def _failures(events: list[dict[str, Any]]) -> list[float]:
    """Returns the times at which ranks have failed, or were found to hang."""
    ends = [event for event in events if event["kind"] == "exit" and event["code"] and not event["stopped"]]
    stops = [event for event in events if event["kind"] == "stop"]
    return [*(event["ended_ns"] / 1e9 for event in ends), *(event["monotonic_ns"] / 1e9 for event in stops)]
