"""What is asked before a job is submitted: OBS, ModelArts and the container engine, all answers at once."""

from __future__ import annotations

import io
import tarfile
import uuid
from collections.abc import Iterator
from contextlib import closing

import docker
import pytest

from tests.functional.job.conftest import Desk
from tests.job_api.stand_in import ApiFault
from tests.job_api.validation import unknown_fields
from tests.requirement import unavailable

FLAVOR = {"flavor_id": "ascend.snt9b.8", "max_num": 4, "flavor_info": {"npu": {"unit_num": "8"}}}


def test_answers_of_the_stand_in_have_the_fields_of_the_sdk() -> None:
    assert unknown_fields("list[FlavorResponseWithSupport]", [FLAVOR]) == ()
    assert unknown_fields("TrainingQuotaResponse", {"resource": "job-num", "quota": 1, "used": 1}) == ()
    assert unknown_fields("TrainingQuotaResponse", {"most": 1}) == ("body.most",)
    stage = {"name": "preparing", "stage_order": 2, "en_message": "x", "start_time": "1", "sub_stages": []}
    part = {"name": "pulling image", "en_message": "x", "create_time": "1"}
    record = {"record_order": 1, "stages": [{**stage, "sub_stages": [part]}]}
    assert unknown_fields("StageRecord", record) == ()
    assert unknown_fields("RunningRecord", {"start_at": 1, "end_at": 2}) == ()


def public(desk: Desk) -> None:
    """The job runs in the public pool, where flavors and a quota are known."""
    text = (desk.project / "job.yaml").read_text().replace("pool: pool-1\n", "")
    (desk.project / "job.yaml").write_text(text.replace("modelarts.pool.visual.2xlarge", "ascend.snt9b.8"))
    desk.api.flavors = [FLAVOR, {"flavor_id": "ascend.snt9b.1"}]


@pytest.mark.invariant("Checks before a submission change nothing, and an unavailable service rejects no job")
def test_problems_known_to_the_services_are_reported_together_before_the_upload(desk: Desk) -> None:
    public(desk)
    desk.obs.create_bucket("here", "cn-north-4")
    desk.obs.create_bucket("far", "cn-east-3")
    desk.api.quotas = [
        {"resource": "job-num", "quota": 10, "used": 10},
        {"resource": "x", "quota": -1, "used": 3},
    ]
    changes = (
        "nodes=9",
        "inputs.data=obs://here/data",
        "outputs.out=obs://far/out/",
        "inputs.gone=obs://gone/x",
    )
    words = [word for change in changes for word in ("--set", change)]
    done = desk.job("submit", "job.yaml", *words, more={"HUAWEICLOUD_SDK_REGION": "cn-north-4"})
    assert done.code == 78
    assert done.err.splitlines() == [
        "ma_boot: the job would fail:",
        "  - inputs: gone: there is no bucket gone",
        "  - outputs: out: obs://far/out/ is in cn-east-3, expected the region of the job, cn-north-4",
        "  - inputs: data: nothing is in obs://here/data",
        "  - the quota of job-num is used up: 10 of 10",
        "  - nodes: found 9, but ascend.snt9b.8 has at most 4",
        "  - line 7: flavor: ascend.snt9b.8 has 8 cards, but devices-per-node is 2",
        "--skip-checks submits it all the same",
    ]
    assert {method for method, _ in desk.obs.requests} <= {"GET", "HEAD"}
    assert [request for request in desk.api.requests if request.startswith("POST")] == []


def test_unknown_flavor_is_reported_with_the_available_ones(desk: Desk) -> None:
    public(desk)
    done = desk.job("submit", "job.yaml", "--set", "flavor=ascend.snt9.8")
    assert done.code == 78
    expected = "expected a flavor of this region such as ascend.snt9b.8, ascend.snt9b.1"
    assert f"flavor: found ascend.snt9.8, {expected}" in done.err


@pytest.mark.invariant("Checks before a submission change nothing, and an unavailable service rejects no job")
@pytest.mark.parametrize("kind", ["500", "403", "close", "portal"])
def test_unavailable_service_does_not_prevent_a_submission(desk: Desk, kind: str) -> None:
    public(desk)
    desk.api.rehearse = False
    desk.api.faults.append(ApiFault(kind, "GET .*/training-(job-names|job-flavors|quotas)", times=9))
    done = desk.job("submit", "job.yaml")
    assert done.code == 0, done.err
    assert len(desk.api.jobs) == 1
    assert "name" in done.err
    assert "not checked: GET /training-job-names" in done.err
    assert "flavor" in done.err


def test_a_check_can_be_skipped(desk: Desk) -> None:
    public(desk)
    desk.api.rehearse = False
    done = desk.job("submit", "job.yaml", "--set", "flavor=other", "--skip-checks")
    assert done.code == 0, done.err
    assert [request for request in desk.api.requests if request.startswith("GET")] == []
    assert "not checked" not in done.err


def test_name_in_use_is_noted(desk: Desk) -> None:
    """The documents do not agree whether it is an error."""
    desk.api.rehearse = False
    notes: dict[int, str] = {}
    for number in range(2):
        done = desk.job("submit", "job.yaml")
        assert done.code == 0, done.err
        notes[number] = done.err
    assert "there is a job" not in notes[0]
    assert "name: there is a job first already" in notes[1]


@pytest.mark.container
def test_an_image_that_the_engine_has_is_checked(desk: Desk, empty_image: str) -> None:
    done = desk.job("submit", "job.yaml", "--set", f"image={empty_image}", more={"DOCKER_HOST": ""})
    assert done.code == 78, done.err
    assert "  - image: " in done.err
    assert desk.api.jobs == {}
    desk.api.rehearse = False
    done = desk.job("submit", "job.yaml", "--set", "image=vision/nowhere:1", more={"DOCKER_HOST": ""})
    assert done.code == 0, done.err
    assert "image: not checked: the container engine here does not have it" in done.err


@pytest.fixture
def empty_image() -> Iterator[str]:
    """An image without anything in it, as SWR would have it."""
    from docker.errors import DockerException

    name = f"test/job-{uuid.uuid4().hex[:8]}:1"
    content = io.BytesIO()
    tarfile.open(fileobj=content, mode="w").close()
    try:
        client = docker.from_env()
        client.ping()
    except DockerException:
        unavailable("no container engine answers")
    with closing(client):
        client.api.import_image_from_data(content.getvalue(), *name.split(":"))
        yield name
        client.images.remove(name)
