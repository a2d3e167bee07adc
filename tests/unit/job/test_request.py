"""The request that creates a job, checked against the SDK's own models."""

from __future__ import annotations

from typing import Any

from ma_boot.desk.job.job_file import JobFile, parse_job
from ma_boot.desk.job.request import boot_command, code_place, request_body, shown_body
from path_mapping.mapping.routes import ObsUrl
from tests.job_api.validation import unknown_fields
from tests.unit.job.job_files import EVERY_KEY


def body_of(text: str = EVERY_KEY) -> dict[str, Any]:
    job, problems = parse_job(text)
    assert problems == []
    command = boot_command(job.options, job.command)
    return request_body(job, command, code_place(job, "code"), {"OBS_ACCESS_KEY_ID": "AKPLANTED"})


def test_each_key_has_its_field() -> None:
    assert body_of() == {
        "kind": "job",
        "metadata": {
            "name": "resnet-2x8",
            "workspace_id": "0",
            "description": "two nodes",
            "annotations": {"fault-tolerance/job-retry-num": "3"},
        },
        "algorithm": {
            "engine": {"image_url": "vision/resnet:2026.1"},
            "code_dir": "/bucket/jobs/resnet-2x8/code/",
            "command": "exec ma_boot --rendezvous=torch --preflight --source=a.sh --source=b.sh "
            "train.py --epochs 90 --name 'a b'",
            "inputs": [
                {
                    "name": "data_url",
                    "access_method": "parameter",
                    "remote": {"obs": {"obs_url": "/bucket/data/"}},
                }
            ],
            "outputs": [
                {"name": "train_url", "access_method": "env", "remote": {"obs": {"obs_url": "/bucket/out/"}}}
            ],
            "parameters": [
                {"name": "lr", "value": "0.10"},
                {"name": "flag", "value": "true"},
                {"name": "n", "value": "3"},
            ],
            "environments": {
                "MABOOT_TIME_LIMIT": "172800",
                "SIZE": "1_000",
                "A": "x y",
                "OBS_ACCESS_KEY_ID": "AKPLANTED",
            },
        },
        "spec": {
            "resource": {
                "pool_id": "pool-a1b2c3d4",
                "flavor_id": "modelarts.pool.visual.8xlarge",
                "node_count": 2,
            },
            "log_export_path": {"obs_url": "/bucket/log/"},
            "auto_stop": {"time_unit": "HOURS", "duration": 48},
            "schedule_policy": {"priority": 2},
        },
    }


def test_unset_key_is_not_in_the_request() -> None:
    assert body_of(
        "name: a\nimage: b/c:1\ncommand: -m train\nflavor: f\ncode-url: obs://bucket\nenvironment: {A: ''}"
    ) == {
        "kind": "job",
        "metadata": {"name": "a"},
        "algorithm": {
            "engine": {"image_url": "b/c:1"},
            "code_dir": "/bucket/a/code/",
            "command": "exec ma_boot -- -m train",
            "environments": {"A": "", "OBS_ACCESS_KEY_ID": "AKPLANTED"},
        },
        "spec": {"resource": {"flavor_id": "f", "node_count": 1}},
    }


def test_a_secret_is_masked_where_the_request_is_shown() -> None:
    shown = shown_body(body_of(), {"OBS_ACCESS_KEY_ID": "AKPLANTED"})
    assert "PLANTED" not in str(shown)
    assert shown["algorithm"]["environments"]["A"] == "x y"
    of_parameter = body_of(EVERY_KEY.replace("lr: 0.10", "api_key: PLANTED"))
    assert "PLANTED" in str(of_parameter)
    assert "PLANTED" not in str(shown_body(of_parameter, {"OBS_ACCESS_KEY_ID": ""}))


def test_the_sdk_knows_every_field() -> None:
    """Its models are the documentation; what they lack would be lost or refused."""
    from huaweicloudsdkmodelarts.v1 import model

    body = body_of()
    kind = model.CreateTrainingJobRequest.openapi_types["body"]
    assert unknown_fields(kind, body) == ()
    assert unknown_fields(kind, {**body, "spec": {"x": 1}}) == ("body.spec.x",)


def test_the_code_goes_below_its_url() -> None:
    job = JobFile(name="a", code_url=ObsUrl("bucket", ""))
    assert str(code_place(job, "src")) == "obs://bucket/a/src/"


def test_an_input_that_names_one_object_has_no_slash() -> None:
    urls = ("obs://bucket/data.tar.gz", "obs://bucket/data.tar/", "obs://bucket/v1.0", "obs://bucket/data")
    inputs = "".join(f"  i{number}: {url}\n" for number, url in enumerate(urls))
    algorithm = body_of(f"name: a\ncode-url: obs://bucket\ninputs:\n{inputs}")["algorithm"]
    paths = [channel["remote"]["obs"]["obs_url"] for channel in algorithm["inputs"]]
    assert paths[:4] == ["/bucket/data.tar.gz", "/bucket/data.tar/", "/bucket/v1.0/", "/bucket/data/"]
