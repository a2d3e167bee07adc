"""The traps of Huawei's SDK, and what becomes of answers that look like success or like nothing."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from ma_boot import __version__
from ma_boot.desk.job.request import MARK
from ma_boot.desk.job_service import api as api_module
from ma_boot.desk.job_service.api import JobApi, PatientApi, ServiceBusy, ServiceRefused
from ma_boot.desk.job_service.jobs import create_job
from ma_boot.errors import BootError, ConfigError, InputMissing, StoreUnavailable
from ma_boot.node.environment.extras import install_command
from tests.functional.job.conftest import Desk
from tests.functional.node import eventually
from tests.job_api.client import BODY, opened
from tests.job_api.stand_in import ApiFault, ModelArtsStandIn


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("429", "429 ModelArts.2799: too many requests, says the gateway (request request-1)"),
        ("500", "500 ModelArts.2799"),
        ("html", "502 : a page of HTML"),
        ("portal", "expected JSON from"),
        ("empty", "expected JSON from"),
        ("close", "no answer from"),
        ("torn", "no answer from"),
    ],
)
@pytest.mark.parametrize("method", ["GET", "POST"])
def test_each_failure_is_one_that_may_pass(api: ModelArtsStandIn, kind: str, text: str, method: str) -> None:
    client = opened(api)
    job = client.create(BODY)
    api.faults.append(ApiFault(kind))
    with pytest.raises(ServiceBusy) as raised:
        client.details(job) if method == "GET" else client.search([], 10)
    assert text.replace(" : ", ": ") in str(raised.value).replace(" : ", ": ")
    assert "<html>" not in str(raised.value).replace("b'<html>", "")
    client.details(job)


def test_a_time_out_of_a_post_is_no_traceback(api: ModelArtsStandIn, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(api_module, "SECONDS", (1, 0.2))
    client = opened(api)
    api.faults.append(ApiFault("slow", "POST"))
    with pytest.raises(ServiceBusy, match="no answer"):
        client.search([], 10)


def marked(mark: str, workspace: str) -> dict[str, Any]:
    metadata = {"name": "scripted", "workspace_id": workspace}
    return {**BODY, "metadata": metadata, "algorithm": {**BODY["algorithm"], "environments": {MARK: mark}}}


@pytest.mark.invariant("A job is created once, even if the answer is lost")
@pytest.mark.parametrize("workspace", ["0", "w" * 32])
def test_job_is_created_once_when_the_answer_is_lost(api: ModelArtsStandIn, workspace: str) -> None:
    notes: list[str] = []
    client = opened(api)
    client.create(marked("of another", workspace))
    api.faults += [ApiFault("lost", "POST .*/training-jobs$"), ApiFault("503", "POST .*-searches", times=2)]
    job = create_job(client, marked("ours", workspace), notes.append, lambda seconds: None)
    assert len(api.jobs) == 2
    assert api.jobs[job].body["algorithm"]["environments"] == {MARK: "ours"}
    assert "looking whether the job was created all the same" in notes[0]


def test_job_of_the_same_name_is_not_mistaken_for_the_created_one(api: ModelArtsStandIn) -> None:
    client = opened(api)
    api.faults.append(ApiFault("503", "POST .*/training-jobs$"))

    def meanwhile(seconds: float) -> None:
        client.create(marked("of somebody else", "0"))

    with pytest.raises(StoreUnavailable, match=r"may still appear: .*job list --name scripted.* is ours"):
        create_job(client, marked("ours", "0"), print, meanwhile)


def test_the_id_of_a_job_is_printed_whatever_follows(desk: Desk) -> None:
    desk.api.rehearse = False
    faults = [ApiFault("lost", "POST .*/training-jobs$"), ApiFault("503", "GET .*/training-jobs/", times=9)]
    desk.api.faults += faults
    done = desk.job("submit", "job.yaml", "--set", f"workspace={'w' * 32}")
    assert done.code == 0, done.err
    assert done.out.split() == list(desk.api.jobs)
    desk.api.faults[:] = [ApiFault("400 ModelArts.2775", "GET .*/training-jobs/", times=9)]
    watched = desk.job("submit", "job.yaml", "--watch")
    assert (watched.code, watched.out.strip()) == (69, [*desk.api.jobs][1]), (
        "66 would say that there is no job"
    )
    desk.api.jobs.popitem()
    desk.api.faults[:] = [ApiFault("503", "GET .*/training-jobs/", times=9)]
    assert desk.job("list").out.count("first") == 0
    here = {"MODELARTS_WORKSPACE": "w" * 32}
    assert desk.job("list", more=here).out.count("first") == 1
    assert desk.job("stop", "first", "--yes", more=here).code == 69
    assert f"workspace, which MODELARTS_WORKSPACE names: {'w' * 32}" in desk.job("logs", "x", more=here).err


@pytest.mark.parametrize("stop", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize(("at", "jobs"), [("GET .*/training-job-names", 0), ("POST .*/training-jobs$", 1)])
def test_interrupted_submission_reports_whether_a_job_exists(
    desk: Desk, stop: signal.Signals, at: str, jobs: int
) -> None:
    desk.api.rehearse = False
    desk.api.faults.append(ApiFault("late", at))
    submission = desk.start("submit", "job.yaml")
    eventually(lambda: any(re.search(at, request) for request in desk.api.requests), "the request is there")
    eventually(lambda: len(desk.api.jobs) == jobs, "it is performed")
    submission.send_signal(stop)
    out, err = submission.communicate(timeout=60)
    assert submission.returncode == 128 + stop, err
    assert out.decode().split() == list(desk.api.jobs)
    expected = f"{next(iter(desk.api.jobs))} was created" if jobs else "no job was created"
    assert expected in err.decode()


@pytest.mark.parametrize("moments", [5, pytest.param(50, marks=[pytest.mark.kill, pytest.mark.timeout(900)])])
def test_submission_killed_at_any_request_creates_at_most_one_job_and_reports_it(
    desk: Desk, moments: int
) -> None:
    """A SIGKILL says nothing; but no moment makes two jobs, also not if the same is submitted again after it."""
    desk.api.rehearse = False
    began = time.monotonic()
    assert desk.job("submit", "job.yaml").code == 0
    whole = time.monotonic() - began
    for moment in range(moments):
        for stop in (signal.SIGTERM, signal.SIGKILL):
            desk.api.jobs.clear()
            submission = desk.start("submit", "job.yaml")
            with suppress(subprocess.TimeoutExpired):
                submission.wait(whole * (moment + 0.5) / moments)
            submission.send_signal(stop)
            out, err = submission.communicate(timeout=60)
            jobs = list(desk.api.jobs)
            assert len(jobs) <= 1
            if stop == signal.SIGTERM and submission.returncode == 128 + stop and err:
                words = "was created" if jobs else "no job |^ma_boot: stopped by SIGTERM$"  # before it began
                assert re.search(words, err.decode()), (jobs, err)
            assert out.decode().split() in (jobs, []), err
            if submission.returncode == 0:
                assert out.decode().split() == jobs


ODD = [
    '{"items": [null, 3, {"metadata": "x"}, {"metadata": {"id": 7, "create_time": "x"}, "status": [1]}]}',
    '{"items": {"a": 1}}',
    '{"metadata": {"id": "x", "name": 1e400}, "status": {"duration": "x", "tasks": {"a": 1}, "phase": "Failed",'
    ' "task_statuses": [null, 1, {"exit_code": "x", "message": ["y"]}]}, "spec": [], "algorithm": 1}',
    '{"events": [null, {"message": null, "time": {}}], "running_records": [null, {"record_order": "x", "stages":'
    ' [1, {"stage_order": [], "sub_stages": {"x": 1}, "start_time": 1}]}], "content": 3, "end_line": 5}',
    '{"quotas": [null, {"quota": "x", "used": null}, {"resource": "disk", "quota": 1, "used": 1}], "flavors": [1]}',
    "[1, 2]",
    "[]",
]


@pytest.mark.parametrize("answer", ODD)
@pytest.mark.parametrize(
    "words", ["watch ID", "logs ID", "list", "stop first --yes", "report ID", "submit job.yaml"]
)
def test_malformed_answer_is_not_a_traceback(desk: Desk, words: str, answer: str) -> None:
    desk.api.rehearse = False
    job = desk.api.jobs[opened(desk.api).create(BODY)]
    job.phase = "Completed"
    desk.api.faults.append(ApiFault(answer, "(GET|searches)", times=99))
    done = desk.job(*words.replace("ID", job.id).split())
    assert done.code in (0, 1, 66, 69), done.err
    assert done.err or words == "list"


@pytest.mark.parametrize(
    ("kind", "times", "code"), [("429", 2, 0), ("503", 2, 0), ("close", 2, 0), ("portal", 1, 69)]
)
def test_iam_is_asked_again_if_it_is_busy(desk: Desk, kind: str, times: int, code: int) -> None:
    desk.api.faults.append(ApiFault(kind, "/v3/projects", times=times))
    region = {"HUAWEICLOUD_SDK_REGION": "cn-test-1", "HUAWEICLOUD_SDK_IAM_ENDPOINT": desk.api.url}
    done = desk.job("list", more={"HUAWEICLOUD_SDK_PROJECT_ID": "", **region})
    assert done.code == code, done.err
    assert ("set HUAWEICLOUD_SDK_PROJECT_ID" in done.err) == bool(code)


def test_error_text_of_the_service_is_shown(api: ModelArtsStandIn) -> None:
    client = opened(api)
    with pytest.raises(ConfigError, match=r"400 ModelArts.2788: invalid parameter: .*metadata.name"):
        client.create({**BODY, "metadata": {"name": "a b"}})
    with pytest.raises(InputMissing, match="The training job does not exist"):
        client.details("no-such-job")


def test_netrc_does_not_replace_the_signature(desk: Desk) -> None:
    netrc = Path(desk.environ["HOME"], ".netrc")
    netrc.write_text("default login somebody password PLANTED\n")
    netrc.chmod(0o600)
    assert desk.job("list").code == 0


def test_requests_contain_no_identity_of_the_machine(desk: Desk) -> None:
    """The SDK's own agent string has the kernel and an identity that it keeps in the home."""
    assert desk.job("list").code == 0
    assert set(desk.api.agents) == {f"huaweicloud-usdk-python/3.0; ma_boot/{__version__}"}


def test_home_directory_stays_unchanged(desk: Desk) -> None:
    home = Path(desk.environ["HOME"])
    assert desk.job("list").code == 0
    assert [*home.rglob("*")] == [], "the SDK keeps a random identity in ~/.huaweicloud/application_id"


def test_an_unwritable_home_is_no_error(desk: Desk) -> None:
    assert desk.job("list", more={"HOME": "/proc/1"}).code == 0


@pytest.mark.parametrize("kind", ["500", "close"])
def test_an_error_is_printed_once(desk: Desk, kind: str) -> None:
    desk.api.faults.append(ApiFault(kind, times=9))
    done = desk.job("list")
    assert done.code == 69
    assert len(done.err.splitlines()) == 1, "the SDK's logger would print it again"


def test_no_error_has_a_key(api: ModelArtsStandIn) -> None:
    client = opened(api)
    api.faults.append(ApiFault("portal"))
    for ask in (client.details, client.stop):
        with pytest.raises(BootError) as raised:
            ask("SKPLANTED-AKPLANTED")
        assert "PLANTED" not in str(raised.value)


def test_the_keys_are_read_again_once(api: ModelArtsStandIn) -> None:
    clients: list[JobApi] = []

    def renewed() -> JobApi:
        clients.append(opened(api))
        return clients[-1]

    patient = PatientApi(renewed, print, lambda seconds: None)
    job = patient.api.create(BODY)
    api.faults.append(ApiFault("403"))
    assert patient.call(JobApi.details, job)["metadata"]["id"] == job
    assert len(clients) == 2
    api.faults.append(ApiFault("401", times=2))
    with pytest.raises(ServiceRefused, match="the keys are from"):
        patient.call(JobApi.details, job)


def test_a_plan_needs_no_network_and_no_sdk(desk: Desk) -> None:
    (desk.project / "huaweicloudsdkcore.py").write_text("raise ImportError('hidden')\n")
    more = {"PYTHONPATH": str(desk.project)}
    plan = desk.job("submit", "job.yaml", "--plan", "--json", more=more)
    assert plan.code == 0, plan
    assert json.loads(plan.out)["request"]["metadata"]["name"] == "first"
    assert desk.api.requests == []
    done = desk.job("list", more=more)
    assert done.code == 78
    assert install_command("job") in done.err
