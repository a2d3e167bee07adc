"""Watching a job while the service fails: every line once, and the job's own exit code."""

from __future__ import annotations

import threading
from functools import partial

import pytest

from ma_boot.desk.job_service.api import JobApi, PatientApi, ServiceBusy
from ma_boot.desk.job_service.follow import Following, JobFollower
from ma_boot.desk.job_service.worker_log import WorkerLog
from ma_boot.errors import InputMissing
from tests.functional.job.conftest import Desk
from tests.functional.node import eventually
from tests.job_api.client import BODY, opened
from tests.job_api.stand_in import ApiFault, ModelArtsStandIn
from tests.job_api.task_log import TaskLog

LINES = 50_000  # of each node
KINDS = ("429", "500", "503", "html", "portal", "close", "torn", "slow", "empty")
FAULTS = [
    *(ApiFault(kind, r"GET .*/logs/worker-") for kind in KINDS),
    *(ApiFault(kind, r"GET .*/training-jobs/[^/?]+( |$)") for kind in KINDS),
    ApiFault("429", r"GET .*/logs/worker-1", times=3),
    ApiFault("close", r"GET .*/events"),
]


@pytest.mark.invariant("Watching shows each line once and ends with the job's exit code")
def test_each_line_is_shown_once_under_20_faults(desk: Desk) -> None:
    changes = ("nodes=4", "devices-per-node=1", "flavor=modelarts.pool.visual.xlarge")
    more = [word for change in changes for word in ("--set", change)]
    # A failure stops the other nodes, wherever they are: so it comes when all have written.
    train = ("train.py", f"lines:{LINES}", f"meet:{desk.project.parent}/written:4", "exit:3:2")
    words = ("--", "--rendezvous", "rank-table", *train)
    assert len(FAULTS) == 20
    job = desk.api.jobs[desk.job("submit", "job.yaml", *more, *words).out.strip()]
    desk.api.faults += FAULTS
    watching = desk.start("watch", job.id)
    restarts = threading.Thread(target=_restart, args=(list(job.logs.values()),))
    restarts.start()
    out, err = watching.communicate(timeout=240)
    restarts.join()
    assert watching.returncode == 3, err.decode()
    shown = _by_node(out.decode())
    for node, task in enumerate(job.logs):
        file = job.logs[task].file
        assert file is not None
        real = file.read_text().splitlines()
        assert len(real) > LINES
        assert shown[f"[node {node}]"] == real, f"{task}: {len(shown[f'[node {node}]'])} of {len(real)} lines"
    assert [fault.kind for fault in desk.api.faults if fault.times] == [], "every fault was met"
    assert err.count(b"trying again until it answers") <= len(FAULTS) + 2
    assert b"too many requests, says the gateway" in err, "the text of a 429 is not lost"
    assert b"<html>" not in err


def _restart(logs: list[TaskLog]) -> None:
    """Each worker's log begins anew once, in the middle."""
    for log in logs:
        eventually(partial(_was_read, log), "lines were read")
        log.restart()


def _was_read(log: TaskLog) -> bool:
    return log.served > LINES // 3


def _by_node(output: str) -> dict[str, list[str]]:
    lines: dict[str, list[str]] = {}
    for line in output.splitlines():
        mark, _, text = line.partition("] ")
        lines.setdefault(f"{mark}]", []).append(text)
    return lines


@pytest.mark.parametrize("inclusive", [True, False])
@pytest.mark.parametrize("newest_first", [True, False])
@pytest.mark.parametrize("ancestor", [True, False])
def test_log_is_read_from_its_first_line_for_each_meaning_of_pages(
    inclusive: bool, newest_first: bool, ancestor: bool
) -> None:
    log, reader = TaskLog(None, inclusive, newest_first, ancestor), WorkerLog("worker-1")

    def read() -> list[str]:
        return [line for page in reader.pages(log.page) for line in page]

    assert read() == []
    log.add(*(f"line {number}" for number in range(1234)), "", "same", "same", "")
    assert read() == [*(f"line {number}" for number in range(1234)), "", "same", "same", ""]
    assert read() == []
    log.add("same")
    assert read() == ["same"]
    log.restart()
    log.add("same", "first line after a restart")
    assert read() == ["same", "first line after a restart"]
    last = [line for page in WorkerLog("worker-1").pages(log.page, last=1) for line in page]
    assert last[-1] == "first line after a restart"


@pytest.mark.parametrize("ancestor", [True, False])
def test_one_line_is_followed_by_others(ancestor: bool) -> None:
    log, reader = TaskLog(newest_first=True, ancestor=ancestor), WorkerLog("worker-1")
    for number in range(3):
        log.add(f"line {number}")
        assert [*reader.pages(log.page)] == [[f"line {number}"]]


def followed(api: ModelArtsStandIn, job: str, nodes: tuple[int, ...] = ()) -> dict[str, list[str]]:
    """The news of a job from now on to its end, by kind, or the node of a log."""
    pauses: list[float] = []

    def pause(seconds: float) -> None:
        pauses.append(seconds)
        api.jobs[job].phase = "Completed"

    lines: dict[str, list[str]] = {}
    patient = PatientApi(lambda: opened(api), lambda text: None, lambda seconds: None)
    for news in JobFollower(patient, Following(job, nodes, interval=0.01), pause).all():
        lines.setdefault(news.source or news.kind, []).extend(news.lines)
    assert pauses[0] == 0.01
    assert set(pauses[1:]) == {2.0}, "the last looks are as far apart whatever the interval"
    return lines


@pytest.mark.parametrize("kind", ["400 ModelArts.2788", "408", "409", "404 APIGW.0101", "half", "[1]"])
@pytest.mark.parametrize("times", [1, 2, 3])
def test_a_refusal_in_the_middle_shows_no_line_twice(api: ModelArtsStandIn, kind: str, times: int) -> None:
    job = api.jobs[opened(api).create(BODY)]
    lines = [f"line {number} é" for number in range(1200)]
    job.logs["worker-0"].add(*lines)
    job.logs["worker-1"].add("other")
    api.faults.append(ApiFault(kind, "logs/worker-0.*base_line", times=99 if kind == "half" else times))
    news = followed(api, job.id)
    assert [line.rstrip("é\ufffd") for line in news["node 0"]] == [line.rstrip("é") for line in lines]
    assert news["node 1"] == ["other"]


@pytest.mark.parametrize(
    "kind", ["400 ModelArts.2819", "400 ModelArts.2822", "404 APIGW.0101", '{"events": 3}']
)
def test_missing_log_of_one_node_or_missing_events_do_not_end_the_watching(
    api: ModelArtsStandIn, kind: str
) -> None:
    job = api.jobs[opened(api).create(BODY)]
    job.logs["worker-1"].add("other")
    api.faults.append(ApiFault(kind, "logs/worker-0|/events", times=99))
    news = followed(api, job.id)
    assert news["node 1"] == ["other"]
    assert news["state"] == ["Creating", "Completed"]
    if kind[0] == "4":
        assert [note.partition(":")[0] for note in news["note"]] == ["events", "node 0"], "once each"


def test_a_node_that_is_listed_later_is_waited_for(api: ModelArtsStandIn) -> None:
    job = api.jobs[opened(api).create(BODY)]
    later = job.logs.pop("worker-1")
    later.add("at last")
    missing = Following(job.id, (2,), logs_only=True)
    with pytest.raises(InputMissing, match="the job has no node 2; it has node 0"):
        next(JobFollower(PatientApi(lambda: opened(api), print, print), missing, print).all())

    def pause(seconds: float) -> None:
        job.logs["worker-1"], job.phase = later, "Completed"

    patient = PatientApi(lambda: opened(api), print, print)
    news = JobFollower(patient, Following(job.id, (1,), logs_only=True), pause).all()
    assert [item.lines for item in news] == [("at last",)]


def test_states_events_and_logs_come_in_order_and_each_once(api: ModelArtsStandIn) -> None:
    notes: list[str] = []
    steps = iter(["Pending", "Rescheduling", "Running", "Running", "Completed"])
    job = api.jobs[opened(api).create(BODY)]
    for number in range(250):
        job.say(f"event {number}")

    def pause(seconds: float) -> None:
        step = next(steps, None)
        if step is not None:
            job.phase = step
            job.say(f"now {step}")
            job.logs["worker-0"].add(f"in {step}")

    follower = JobFollower(PatientApi(lambda: opened(api), notes.append, pause), Following(job.id), pause)
    lines: dict[str, list[str]] = {}
    for news in follower.all():
        lines.setdefault(news.kind, []).extend(news.lines)
    assert lines["state"] == [
        "Creating",
        "Pending",
        "Rescheduling (a state that this version does not know)",
        "Running",
        "Completed",
    ]
    assert lines["event"][:250] == [f"event {number}" for number in range(250)]
    assert lines["log"] == ["in Pending", "in Rescheduling", "in Running", "in Running", "in Completed"]
    assert notes == []


def test_a_base_line_of_an_earlier_start_does_not_end_the_watching(api: ModelArtsStandIn) -> None:
    client, reader = opened(api), WorkerLog("worker-0")
    job = api.jobs[client.create(BODY)]
    log = job.logs["worker-0"]
    log.forgetful = True
    log.add("first start")
    get = partial(client.lines, job.id, "worker-0")
    assert [*reader.pages(get)] == [["first start"]]
    log.restart()
    assert [*reader.pages(get)] == []
    log.add("second start", "more")
    assert [*reader.pages(get)] == [["second start", "more"]]
    assert [*reader.pages(get)] == []


def test_an_endpoint_that_never_answers_is_given_up(api: ModelArtsStandIn) -> None:
    notes: list[str] = []
    pauses: list[float] = []
    patient = PatientApi(lambda: opened(api), notes.append, pauses.append)
    api.faults.append(ApiFault("portal", times=1000))
    with pytest.raises(ServiceBusy, match="expected JSON from"):
        patient.call(JobApi.details, "x")
    assert 30 < sum(pauses) < 130
    assert len(notes) == 1
    api.faults.clear()
    job = opened(api).create(BODY)
    patient.call(JobApi.details, job)
    api.faults.append(ApiFault("portal", times=100))
    patient.call(JobApi.details, job)
    assert notes[1:] == [notes[0].replace("/x:", f"/{job}:"), "ModelArts answers again"]
