"""What OBS does and radosgw does not: checked on the embedded server alone, with third-party clients."""

from __future__ import annotations

import asyncio
import http.client
import io
import socket
import time
from pathlib import Path
from typing import Any, Iterator, List, Tuple
from urllib.parse import urlsplit

import pytest
from obs import (
    AppendObjectContent,
    CompletePart,
    ListMultipartUploadsRequest,
    ObsClient,
    PutObjectHeader,
)

from ma_boot.rehearsal.obs_server import KeyPair
from path_mapping.localfs.source_file import by_crcmod
from tests.conformance.clients import Account, Boto, Sdk
from tests.obs import MemoryObs

CONTENT = b"0123456789" * 1000
DOMAIN = "obs.test.myhuaweicloud.com"
TEMPORARY = KeyPair("AKTEMPORARY", "SKPLANTED", "TOKENPLANTED")


@pytest.fixture
def server(tmp_path: Path) -> Iterator[MemoryObs]:
    with MemoryObs(tmp_path, [KeyPair("AKPLANTED", "SKPLANTED"), TEMPORARY], domain=DOMAIN) as server:
        server.create_bucket("bucket")
        yield server


@pytest.fixture(params=["obs", "v2"])
def sdk(request: pytest.FixtureRequest, server: MemoryObs) -> Any:
    """The SDK's own client."""
    mode = {"client_mode": "workflow"} if request.param == "obs" else {}
    return ObsClient(
        "AKPLANTED",
        "SKPLANTED",
        server=server.url,
        path_style=True,
        signature=request.param,
        max_retry_count=0,
        **mode,
    )


def client(server: MemoryObs, signature: str, credentials: KeyPair) -> Any:
    account = Account(server.url, credentials.access_key, credentials.secret_key, credentials.token)
    return Boto(account, "bucket") if signature == "v4" else Sdk(account, "bucket", signature)


def test_the_crc64_is_in_every_answer_where_the_sdk_looks_for_it(sdk: Any) -> None:
    crc = str(by_crcmod()(CONTENT, 0))
    assert sdk.putContent("bucket", "a", CONTENT).body.crc64 == crc
    assert sdk.getObjectMetadata("bucket", "a").body.crc64 == crc
    got = sdk.getObject("bucket", "a", loadStreamInMemory=True, isAttachCrc64=True)
    assert (got.body.buffer, got.body.crc64) == (CONTENT, crc)
    upload = sdk.initiateMultipartUpload("bucket", "b").body.uploadId
    parts = []
    for number, part in enumerate((b"x" * 200_000, b"tail"), 1):
        sent = sdk.uploadPart("bucket", "b", number, upload, content=part, isAttachCrc64=True)
        assert sent.body.crc64 == str(by_crcmod()(part, 0))
        parts.append(CompletePart(number, sent.body.etag))
    done = sdk.completeMultipartUpload("bucket", "b", upload, type("Parts", (dict,), {})(parts=parts))
    assert done.body.crc64 == str(by_crcmod()(b"x" * 200_000 + b"tail", 0))


def test_a_wrong_crc64_is_refused(sdk: Any) -> None:
    assert sdk.putContent("bucket", "a", CONTENT, headers=PutObjectHeader(isAttachCrc64=True)).status == 200
    refused = sdk.putContent("bucket", "b", CONTENT, headers=PutObjectHeader(crc64="1"))
    assert (refused.status, refused.errorCode) == (400, "BadDigest")
    assert sdk.getObjectMetadata("bucket", "b").status == 404


def test_a_body_in_chunks(sdk: Any) -> None:
    assert sdk.putContent("bucket", "a", io.BytesIO(CONTENT * 20)).status == 200
    assert sdk.getObject("bucket", "a", loadStreamInMemory=True).body.buffer == CONTENT * 20


def test_appending(sdk: Any) -> None:
    for position, piece in ((0, b"one"), (3, b"two"), (6, CONTENT)):
        answer = sdk.appendObject("bucket", "log", AppendObjectContent(piece, position))
        assert (answer.status, answer.body.nextPosition) == (200, position + len(piece))
    assert sdk.getObject("bucket", "log", loadStreamInMemory=True).body.buffer == b"onetwo" + CONTENT
    found = sdk.getObjectMetadata("bucket", "log").body
    assert (found.isAppendable, found.nextPosition) == (True, 6 + len(CONTENT))
    assert found.crc64 == str(by_crcmod()(b"onetwo" + CONTENT, 0))
    assert [one.isAppendable for one in sdk.listObjects("bucket").body.contents] == [True]
    assert (
        sdk.appendObject("bucket", "log", AppendObjectContent(b"x", 3)).errorCode
        == "PositionNotEqualToLength"
    )
    sdk.putContent("bucket", "plain", b"x")
    assert (
        sdk.appendObject("bucket", "plain", AppendObjectContent(b"x", 1)).errorCode == "ObjectNotAppendable"
    )


@pytest.mark.parametrize("signature", ["obs", "v2", "v4"])
def test_only_the_listed_parts_are_used(server: MemoryObs, signature: str) -> None:
    found = client(server, signature, KeyPair("AKPLANTED", "SKPLANTED"))
    upload = found.begin("a")
    found.put_part("a", upload, 1, b"one")
    etag = found.put_part("a", upload, 2, b"two").etag
    assert found.complete("a", upload, [(2, etag)]).status == 200
    assert found.get("a").content == b"two"


def test_parts_in_another_order_are_refused(server: MemoryObs) -> None:
    found = client(server, "v4", KeyPair("AKPLANTED", "SKPLANTED"))  # the SDK would sort them
    upload = found.begin("a")
    named = [(number, found.put_part("a", upload, number, b"x" * 200_000).etag) for number in (1, 2)]
    refused = found.complete("a", upload, named[::-1])
    assert (refused.status, refused.code) == (400, "InvalidPartOrder")
    assert found.complete("a", upload, named).status == 200


def test_a_payload_other_than_the_signed_one_is_refused(server: MemoryObs) -> None:
    found = client(server, "v4", KeyPair("AKPLANTED", "SKPLANTED"))

    def change(request: Any, **others: Any) -> None:
        request.body = io.BytesIO(request.body.read()[::-1])

    found._client.meta.events.register("before-send.s3.PutObject", change)
    refused = found.put("a", CONTENT)
    assert (refused.status, refused.code) == (400, "XAmzContentSHA256Mismatch")
    assert found.page().keys == []


def test_what_is_replaced_or_deleted_takes_no_space(server: MemoryObs) -> None:
    found = client(server, "v2", KeyPair("AKPLANTED", "SKPLANTED"))

    def files() -> List[Path]:
        return list((server.root / "buckets" / "bucket").iterdir())

    for content in (b"one", b"two"):
        found.put("a", content)
    assert len(files()) == 1
    assert found.put("a", b"three", md5="c2hvcnQ=").status == 400
    assert len(files()) == 1
    found.delete("a")
    assert files() == []
    upload = found.begin("a")
    for content in (b"one", b"two"):
        etag = found.put_part("a", upload, 1, content).etag
    assert len(list((server.root / "uploads").iterdir())) == 1
    found.complete("a", upload, [(1, etag)])
    assert list((server.root / "uploads").iterdir()) == []


@pytest.mark.parametrize("signature", ["obs", "v2", "v4"])
def test_copying_on_condition_of_the_etag(server: MemoryObs, signature: str) -> None:
    found = client(server, signature, KeyPair("AKPLANTED", "SKPLANTED"))
    etag = found.put("a", CONTENT).etag
    assert found.copy("a", "b", if_match=etag).status == 200
    assert found.copy("a", "c", if_match="0" * 32).status == 412


def test_uploads_are_listed_in_pages(sdk: Any) -> None:
    keys = ["a", "b", "b", "b", "c +%"]
    begun = [(key, sdk.initiateMultipartUpload("bucket", key).body.uploadId) for key in keys]
    found: List[Tuple[str, str]] = []
    more = ListMultipartUploadsRequest(max_uploads=2)
    while True:
        body = sdk.listMultipartUploads("bucket", more, encoding_type="url").body
        assert len(body.upload) <= 2
        found += [(one.key, one.uploadId) for one in body.upload]
        if not body.isTruncated:
            break
        more.key_marker, more.upload_id_marker = body.nextKeyMarker, body.nextUploadIdMarker
    assert found == begun
    from_b = ListMultipartUploadsRequest(key_marker="b")
    assert [one.key for one in sdk.listMultipartUploads("bucket", from_b).body.upload] == ["c +%"]


@pytest.mark.parametrize("parameter", ["acl", "versioning", "tagging", "website"])
def test_unsupported_operations_are_refused(sdk: Any, parameter: str) -> None:
    refused = sdk._make_get_request("bucket", pathArgs={parameter: None})
    assert (refused.status, refused.errorCode) == (501, "NotImplemented")


class TestTemporaryCredentials:
    """Keys with a security token."""

    @pytest.fixture(params=["obs", "v2", "v4"])
    def signature(self, request: pytest.FixtureRequest) -> str:
        return str(request.param)

    def test_the_token_is_needed_and_must_be_the_right_one(self, server: MemoryObs, signature: str) -> None:
        assert client(server, signature, TEMPORARY).put("a", b"x").status == 200
        for token in (None, "another"):
            refused = client(server, signature, KeyPair("AKTEMPORARY", "SKPLANTED", token)).put("b", b"x")
            assert (refused.status, refused.code) == (403, "InvalidToken")

    def test_a_signed_url_has_it_too(self, server: MemoryObs, signature: str) -> None:
        found = client(server, signature, TEMPORARY)
        found.put("a", b"x")
        connection = http.client.HTTPConnection(urlsplit(server.url).netloc)
        for token, status in (("TOKENPLANTED", 200), ("another", 403)):
            connection.request("GET", found.signed_url("GET", "a").replace("TOKENPLANTED", token))
            answer = connection.getresponse()
            answer.read()
            assert answer.status == status
        connection.close()

    def test_it_expires_and_is_replaced(self, server: MemoryObs, signature: str) -> None:
        ended = KeyPair("AKTEMPORARY", "SKPLANTED", "TOKENPLANTED", expires=time.time() - 1)
        server.credentials[:] = [ended, KeyPair("AKTEMPORARY", "SKPLANTED", "NEXT")]
        refused = client(server, signature, TEMPORARY).put("a", b"x")
        assert (refused.status, refused.code) == (403, "ExpiredToken")
        assert client(server, signature, server.credentials[1]).put("a", b"x").status == 200


@pytest.fixture
def names_lead_to_loopback(monkeypatch: pytest.MonkeyPatch) -> None:
    """Resolves every bucket's host name to loopback, as a hosts file would."""
    real = socket.getaddrinfo

    def resolve(host: Any, *arguments: Any, **named: Any) -> Any:
        name = host.decode() if isinstance(host, bytes) else str(host)
        return real("127.0.0.1" if name.endswith(DOMAIN) else host, *arguments, **named)

    monkeypatch.setattr(socket, "getaddrinfo", resolve)


@pytest.mark.usefixtures("names_lead_to_loopback")
class TestVirtualHosted:
    """The bucket in the host name, which is OBS' default."""

    def test_the_sdk_with_its_defaults(self, server: MemoryObs) -> None:
        """An unsigned request finds out first whether the server is OBS; then it signs for OBS."""
        sdk = ObsClient("AKPLANTED", "SKPLANTED", server=f"http://{DOMAIN}:{server.port}", max_retry_count=0)
        assert sdk.createBucket("other").status == 200
        assert sdk.putContent("other", "dir/ü +%", CONTENT).status == 200
        assert sdk.getObject("other", "dir/ü +%", loadStreamInMemory=True).body.buffer == CONTENT
        assert [one.key for one in sdk.listObjects("other").body.contents] == ["dir/ü +%"]
        assert ("HEAD", "/?apiversion") in server.requests
        assert sorted(one.name for one in sdk.listBuckets().body.buckets) == ["bucket", "other"]
        assert sdk.headBucket("missing").status == 404

    @pytest.mark.parametrize("signature", ["v2", "v4"])
    def test_other_signatures(self, server: MemoryObs, signature: str) -> None:
        account = Account(f"http://{DOMAIN}:{server.port}", "AKPLANTED", "SKPLANTED")
        found: Any
        if signature == "v4":
            found = Boto(account, "bucket", style="virtual")
        else:
            found = Sdk(account, "bucket", "v2", path_style=False)
        assert found.put("dir/ü +%", CONTENT).status == 200
        assert found.get("dir/ü +%").content == CONTENT
        assert found.page("dir/").keys == ["dir/ü +%"]

    def test_opendal_signs_for_obs_as_we_verify(self, server: MemoryObs) -> None:
        """A second implementation of OBS' signature; the test sends its URLs, as it drops the port."""
        opendal = pytest.importorskip("opendal", reason="opendal has no release for this Python")
        operator = opendal.AsyncOperator(
            "obs",
            bucket="bucket",
            endpoint=f"http://{DOMAIN}",
            access_key_id="AKPLANTED",
            secret_access_key="SKPLANTED",
        )

        async def signed() -> Any:
            return await operator.presign_write("dir/ü +%", 60), await operator.presign_read("dir/ü +%", 60)

        connection = http.client.HTTPConnection("127.0.0.1", server.port)
        for request, content in zip(asyncio.run(signed()), (CONTENT, None)):
            url = urlsplit(request.url)
            assert url.hostname == f"bucket.{DOMAIN}"
            headers = {"Host": f"{url.hostname}:{server.port}", **request.headers}
            connection.request(request.method, f"{url.path}?{url.query}", content, headers)
            answer = connection.getresponse()
            assert (answer.status, answer.read()) == (200, b"" if content else CONTENT)
        connection.close()


def test_list_objects_v2(server: MemoryObs) -> None:
    found = client(server, "v4", KeyPair("AKPLANTED", "SKPLANTED"))
    for key in ("a", "d/1", "d/2", "ü +%&", "z"):
        found.put(key, b"x")
    pages = list(
        found._client.get_paginator("list_objects_v2").paginate(
            Bucket="bucket", Delimiter="/", PaginationConfig={"PageSize": 2}
        )
    )
    assert [one["Key"] for page in pages for one in page.get("Contents", [])] == ["a", "z", "ü +%&"]
    assert [one["Prefix"] for page in pages for one in page.get("CommonPrefixes", [])] == ["d/"]
    assert [page["KeyCount"] for page in pages] == [2, 2]
