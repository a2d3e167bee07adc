"""The traps of Huawei's SDK, and what becomes of answers that look like success or like nothing."""

from __future__ import annotations

import json
from pathlib import Path
from typing import List

import pytest

from ma_boot import __version__
from ma_boot.errors import BootError, ConfigError, InputMissing, StoreUnavailable
from ma_boot.job_service import JobApi, api as api_module, created
from ma_boot.job_service.api import ServiceBusy, ServiceRefused
from tests.functional.job.conftest import Desk
from tests.functional.job.test_faults import BODY, opened
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
    job = client.create(BODY)["metadata"]["id"]
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


def test_a_job_is_created_once_though_its_answer_was_lost(api: ModelArtsStandIn) -> None:
    said: List[str] = []
    client = opened(api)
    earlier = client.create(BODY)["metadata"]["id"]
    api.faults.append(ApiFault("lost", "POST .*/training-jobs$"))
    job = created(client, BODY, said.append, lambda seconds: None)
    assert len(api.jobs) == 2
    assert job["metadata"]["id"] != earlier
    assert "looking whether the job was created all the same" in said[0]
    api.faults.append(ApiFault("503", "POST .*/training-jobs$"))
    with pytest.raises(StoreUnavailable, match="No new job of the name scripted was found"):
        created(client, BODY, said.append, lambda seconds: None)
    assert len(api.jobs) == 2


def test_what_the_service_refuses_is_said_with_its_words(api: ModelArtsStandIn) -> None:
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


def test_nothing_of_the_machine_is_told_to_the_service(desk: Desk) -> None:
    """The SDK's own agent string has the kernel and an identity that it keeps in the home."""
    assert desk.job("list").code == 0
    assert set(desk.api.agents) == {f"huaweicloud-usdk-python/3.0; ma_boot/{__version__}"}


def test_nothing_is_written_to_the_home(desk: Desk) -> None:
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
    from ma_boot.job_service import PatientApi

    found: List[JobApi] = []

    def renewed() -> JobApi:
        found.append(opened(api))
        return found[-1]

    patient = PatientApi(renewed, print, lambda seconds: None)
    job = patient.api.create(BODY)["metadata"]["id"]
    api.faults.append(ApiFault("403"))
    assert patient.call(JobApi.details, job)["metadata"]["id"] == job
    assert len(found) == 2
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
    assert "pip install 'ma-boot[job]'" in done.err
