"""A client of the stand-in, and the body of a small job."""

from __future__ import annotations

from typing import Any

from ma_boot.desk.job_service.api import JobApi, api_access
from tests.job_api.stand_in import PROJECT, ModelArtsStandIn

BODY: dict[str, Any] = {
    "kind": "job",
    "metadata": {"name": "scripted"},
    "algorithm": {"engine": {"image_url": "a/b:1"}, "code_dir": "/bucket/x/", "command": "exec ma_boot x.py"},
    "spec": {"resource": {"node_count": 2, "flavor_id": "f"}},
}


def opened(api: ModelArtsStandIn) -> JobApi:
    """Opens the API of a stand-in."""
    keys = {"HUAWEICLOUD_SDK_AK": "AKPLANTED", "HUAWEICLOUD_SDK_SK": "SKPLANTED"}
    return JobApi(api_access({**keys, "HUAWEICLOUD_SDK_PROJECT_ID": PROJECT, "MODELARTS_ENDPOINT": api.url}))
