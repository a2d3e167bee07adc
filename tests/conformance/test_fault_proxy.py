"""The fault proxy breaks what it is told to and nothing else, as seen by an independent client."""

from __future__ import annotations

import urllib.request
from pathlib import Path
from typing import Any, Iterator, List

import boto3
import pytest
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

from ma_boot.rehearsal.obs_server import ObsServer
from tests.conformance.fault_proxy import Fault, FaultProxy, operation

BODY = bytes(range(256)) * 300


@pytest.fixture
def proxy(obs: ObsServer) -> Iterator[FaultProxy]:
    with FaultProxy(obs.url) as proxy:
        yield proxy


@pytest.fixture
def s3(proxy: FaultProxy) -> Any:
    """boto3 without retries and without checksums of its own."""
    checksums = "when_required"
    config = Config(
        s3={"addressing_style": "path"},
        retries={"max_attempts": 0},
        read_timeout=2,
        request_checksum_calculation=checksums,
        response_checksum_validation=checksums,
    )
    keys = {"aws_access_key_id": "AKPLANTED", "aws_secret_access_key": "SKPLANTED"}
    client = boto3.client("s3", endpoint_url=proxy.url, region_name="x", config=config, **keys)
    client.put_object(Bucket="bucket", Key="a/b", Body=BODY)
    proxy.seen.clear()
    return client


def body(s3: Any) -> bytes:
    found: bytes = s3.get_object(Bucket="bucket", Key="a/b")["Body"].read()
    return found


def test_without_a_fault_everything_passes_and_is_seen(s3: Any, proxy: FaultProxy) -> None:
    assert body(s3) == BODY
    assert s3.list_objects(Bucket="bucket", Prefix="a/")["Contents"][0]["Key"] == "a/b"
    upload = s3.create_multipart_upload(Bucket="bucket", Key="parts")["UploadId"]
    part = s3.upload_part(Bucket="bucket", Key="parts", UploadId=upload, PartNumber=1, Body=BODY)
    parts = {"Parts": [{"PartNumber": 1, "ETag": part["ETag"]}]}
    s3.complete_multipart_upload(Bucket="bucket", Key="parts", UploadId=upload, MultipartUpload=parts)
    s3.copy_object(Bucket="bucket", Key="copy", CopySource="bucket/parts")
    s3.head_object(Bucket="bucket", Key="copy")
    s3.delete_object(Bucket="bucket", Key="copy")
    assert [seen.operation for seen in proxy.seen] == [
        *("GetObject", "ListObjects", "CreateMultipartUpload", "UploadPart", "CompleteMultipartUpload"),
        *("CopyObject", "HeadObject", "DeleteObject"),
    ]


@pytest.mark.parametrize(
    ("fault", "expected"),
    [
        (Fault(operation("GetObject"), flip_answer=70_000), b""),
        (Fault(operation("GetObject"), cut_answer=1000), None),
        (Fault(operation("GetObject"), reset=True), None),
        (Fault(operation("GetObject"), reset=True, forwarded=True), None),
        (Fault(operation("GetObject"), stall=True), None),
        (Fault(operation("GetObject"), status=503, code="SlowDown"), None),
        (Fault(operation("GetObject"), status=200, body=b"<html>"), b"<html>"),
        (Fault(operation("PutObject"), status=503), BODY),
    ],
)
def test_a_fault_hits_its_target_once(s3: Any, proxy: FaultProxy, fault: Fault, expected: Any) -> None:
    proxy.faults.append(fault)
    if expected is None:
        with pytest.raises((BotoCoreError, ClientError)):
            body(s3)
    else:
        found = body(s3)
        assert found == (expected or BODY[:70_000] + bytes([BODY[70_000] ^ 1]) + BODY[70_001:])
    assert body(s3) == BODY


def test_a_forwarded_request_takes_effect_although_an_error_is_returned(s3: Any, proxy: FaultProxy) -> None:
    proxy.faults.append(Fault(operation("PutObject"), status=500, forwarded=True))
    with pytest.raises(ClientError):
        s3.put_object(Bucket="bucket", Key="a/b", Body=b"new")
    assert body(s3) == b"new"


def test_a_request_refused_early_or_not_forwarded_has_no_effect(s3: Any, proxy: FaultProxy) -> None:
    early = Fault(operation("PutObject"), status=200, early=True, body=b"", with_headers={"ETag": '"x"'})
    proxy.faults += [early, Fault(operation("PutObject"), status=500)]
    s3.put_object(Bucket="bucket", Key="a/b", Body=b"new")
    with pytest.raises(ClientError):
        s3.put_object(Bucket="bucket", Key="a/b", Body=b"new")
    assert body(s3) == BODY


def test_a_request_is_corrupted_on_its_way(s3: Any, proxy: FaultProxy) -> None:
    url = s3.generate_presigned_url("put_object", {"Bucket": "bucket", "Key": "a/b"})

    proxy.faults.append(Fault(operation("PutObject"), flip_request=1))
    request = urllib.request.Request(url, data=b"abc", method="PUT")
    with urllib.request.urlopen(request):
        pass
    assert body(s3) == b"acc"


def test_headers_can_be_removed_and_a_hook_runs_first(s3: Any, proxy: FaultProxy, tmp_path: Path) -> None:
    before: List[str] = []
    without = Fault(operation("HeadObject"), without=("etag",), before=lambda seen: before.append(seen.path))
    proxy.faults.append(without)
    assert "ETag" not in s3.head_object(Bucket="bucket", Key="a/b")
    assert "ETag" in s3.head_object(Bucket="bucket", Key="a/b")
    assert before == ["/bucket/a/b"]
