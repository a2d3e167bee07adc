"""Two independent clients behind one small interface: Huawei's SDK and boto3."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Union

import boto3
from botocore.config import Config
from botocore.exceptions import ClientError
from obs import (
    CompleteMultipartUploadRequest,
    CompletePart,
    CopyObjectHeader,
    DeleteObjectsRequest,
    GetObjectHeader,
    ListMultipartUploadsRequest,
    Object,
    ObsClient,
    PutObjectHeader,
)


@dataclass(frozen=True)
class Account:
    """A server's URL and the credentials for it."""

    url: str
    access_key: str
    secret_key: str
    token: str | None = None


@dataclass(frozen=True)
class Reply:
    """A server's answer, as the client read it. `etag` has no quotes; `code` is empty on success."""

    status: int
    code: str = ""
    content: bytes = b""
    etag: str = ""
    size: int = -1
    content_type: str = ""
    metadata: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Page:
    """One page of a listing; `next` is the marker of the next one, None on the last."""

    keys: list[str]
    prefixes: list[str]
    next: str | None
    sizes: list[int]
    etags: list[str]


class Sdk:
    """esdk-obs-python with the signature `obs` or `v2`."""

    def __init__(self, account: Account, bucket: str, signature: str, path_style: bool = True) -> None:
        mode = {"client_mode": "workflow"} if signature == "obs" else {}  # else the path style forces V2
        self.bucket = self._bucket = bucket
        self._client = ObsClient(
            account.access_key,
            account.secret_key,
            security_token=account.token,
            server=account.url,
            path_style=path_style,
            signature=signature,
            is_signature_negotiation=False,
            long_conn_mode=True,
            max_retry_count=0,
            **mode,
        )

    def create_bucket(self) -> Reply:
        return _reply(self._client.createBucket(self._bucket))

    def delete_bucket(self) -> Reply:
        return _reply(self._client.deleteBucket(self._bucket))

    def head_bucket(self) -> Reply:
        return _reply(self._client.headBucket(self._bucket))

    def put(self, key: str, content: bytes, md5: str | None = None, kind: str = "", **metadata: str) -> Reply:
        headers = PutObjectHeader(md5=md5, contentType=kind or None)
        return _reply(self._client.putContent(self._bucket, key, content, metadata or None, headers))

    def get(self, key: str, range: str = "", if_match: str = "", if_none_match: str = "") -> Reply:
        headers = GetObjectHeader(
            range or None, if_match=if_match or None, if_none_match=if_none_match or None
        )
        return _reply(self._client.getObject(self._bucket, key, headers=headers, loadStreamInMemory=True))

    def head(self, key: str) -> Reply:
        return _reply(self._client.getObjectMetadata(self._bucket, key))

    def delete(self, key: str) -> Reply:
        return _reply(self._client.deleteObject(self._bucket, key))

    def delete_all(self, keys: Sequence[str]) -> tuple[list[str], list[str]]:
        request = DeleteObjectsRequest(quiet=False, objects=[Object(key) for key in keys])
        body = _good(self._client.deleteObjects(self._bucket, request)).body
        return [entry.key for entry in body.deleted], [entry.key for entry in body.error]

    def copy(self, source: str, key: str, if_match: str = "", **metadata: str) -> Reply:
        headers = CopyObjectHeader(directive="REPLACE" if metadata else None, if_match=if_match or None)
        return _reply(
            self._client.copyObject(self._bucket, source, self._bucket, key, metadata or None, headers)
        )

    def page(self, prefix: str = "", marker: str = "", delimiter: str = "", limit: int = 1000) -> Page:
        answer = self._client.listObjects(
            self._bucket, prefix or None, marker or None, limit, delimiter or None, encoding_type="url"
        )
        body = _good(answer).body
        return Page(
            [entry.key for entry in body.contents],
            [entry.prefix for entry in body.commonPrefixs],
            body.next_marker if body.is_truncated else None,
            [entry.size for entry in body.contents],
            [entry.etag.strip('"') for entry in body.contents],
        )

    def create_upload(self, key: str) -> str:
        return str(_good(self._client.initiateMultipartUpload(self._bucket, key)).body.uploadId)

    def put_part(self, key: str, upload: str, number: int, content: bytes) -> Reply:
        return _reply(self._client.uploadPart(self._bucket, key, number, upload, content=content))

    def copy_part(self, key: str, upload: str, number: int, source: str, range: str) -> Reply:
        whence = f"{self._bucket}/{source}"
        return _reply(self._client.copyPart(self._bucket, key, number, upload, whence, range))

    def parts(self, key: str, upload: str, after: int = 0, limit: int = 1000) -> list[tuple[int, int, str]]:
        answer = self._client.listParts(self._bucket, key, upload, maxParts=limit, partNumberMarker=after)
        return [(entry.partNumber, entry.size, entry.etag.strip('"')) for entry in _good(answer).body.parts]

    def complete(self, key: str, upload: str, parts: Sequence[tuple[int, str]]) -> Reply:
        request = CompleteMultipartUploadRequest([CompletePart(number, etag) for number, etag in parts])
        return _reply(self._client.completeMultipartUpload(self._bucket, key, upload, request))

    def abort(self, key: str, upload: str) -> Reply:
        return _reply(self._client.abortMultipartUpload(self._bucket, key, upload))

    def uploads(self, prefix: str = "") -> list[tuple[str, str]]:
        request = ListMultipartUploadsRequest(prefix=prefix or None)
        body = _good(self._client.listMultipartUploads(self._bucket, request)).body
        return [(entry.key, entry.uploadId) for entry in body.upload]

    def signed_url(self, method: str, key: str, seconds: int = 60) -> str:
        return str(self._client.createSignedUrl(method, self._bucket, key, expires=seconds).signedUrl)


def _good(answer: Any) -> Any:
    assert answer.status < 300, (answer.status, answer.errorCode, answer.errorMessage)
    assert answer.body is not None, "the SDK could not read the answer"
    return answer


def _reply(answer: Any) -> Reply:
    headers = dict(answer.header or [])
    if answer.status >= 300:
        return Reply(answer.status, answer.errorCode or "")
    content = getattr(answer.body, "buffer", None) or b""
    return Reply(
        answer.status,
        content=content,
        etag=(getattr(answer.body, "etag", None) or headers.get("etag", "")).strip('"'),
        size=int(headers.get("content-length", -1)),
        content_type=headers.get("content-type", ""),
        metadata=headers,
    )


class Boto:
    """boto3 with V4 signatures."""

    def __init__(self, account: Account, bucket: str, style: str = "path") -> None:
        self.bucket = self._bucket = bucket
        self._client: Any = boto3.client(
            "s3",
            endpoint_url=account.url,
            aws_access_key_id=account.access_key,
            aws_secret_access_key=account.secret_key,
            aws_session_token=account.token,
            region_name="us-east-1",
            config=Config(
                signature_version="s3v4",
                s3={"addressing_style": style},
                retries={"max_attempts": 0},
                request_checksum_calculation="when_required",
                response_checksum_validation="when_required",
            ),
        )

    def _ask(self, operation: str, **arguments: Any) -> Any:
        """boto3's answer or error; empty arguments are not sent."""
        given = {name: value for name, value in arguments.items() if value not in (None, "", {})}
        try:
            return getattr(self._client, operation)(Bucket=self._bucket, **given)
        except ClientError as error:
            return error.response

    def create_bucket(self) -> Reply:
        return _boto_reply(self._ask("create_bucket"))

    def delete_bucket(self) -> Reply:
        return _boto_reply(self._ask("delete_bucket"))

    def head_bucket(self) -> Reply:
        return _boto_reply(self._ask("head_bucket"))

    def put(self, key: str, content: bytes, md5: str | None = None, kind: str = "", **metadata: str) -> Reply:
        answer = self._ask(
            "put_object", Key=key, Body=content, ContentMD5=md5, ContentType=kind, Metadata=metadata
        )
        return _boto_reply(answer)

    def get(self, key: str, range: str = "", if_match: str = "", if_none_match: str = "") -> Reply:
        full = f"bytes={range}" if range else ""
        return _boto_reply(
            self._ask("get_object", Key=key, Range=full, IfMatch=if_match, IfNoneMatch=if_none_match)
        )

    def head(self, key: str) -> Reply:
        return _boto_reply(self._ask("head_object", Key=key))

    def delete(self, key: str) -> Reply:
        return _boto_reply(self._ask("delete_object", Key=key))

    def delete_all(self, keys: Sequence[str]) -> tuple[list[str], list[str]]:
        answer = self._ask("delete_objects", Delete={"Objects": [{"Key": key} for key in keys]})
        deleted, errors = answer.get("Deleted", []), answer.get("Errors", [])
        return [entry["Key"] for entry in deleted], [entry["Key"] for entry in errors]

    def copy(self, source: str, key: str, if_match: str = "", **metadata: str) -> Reply:
        answer = self._ask(
            "copy_object",
            Key=key,
            CopySource={"Bucket": self._bucket, "Key": source},
            CopySourceIfMatch=if_match,
            Metadata=metadata,
            MetadataDirective="REPLACE" if metadata else "",
        )
        return replace(
            _boto_reply(answer), etag=answer.get("CopyObjectResult", {}).get("ETag", "").strip('"')
        )

    def page(self, prefix: str = "", marker: str = "", delimiter: str = "", limit: int = 1000) -> Page:
        answer = self._ask("list_objects", Prefix=prefix, Marker=marker, Delimiter=delimiter, MaxKeys=limit)
        contents = answer.get("Contents", [])
        return Page(
            [entry["Key"] for entry in contents],
            [entry["Prefix"] for entry in answer.get("CommonPrefixes", [])],
            answer["NextMarker"] if answer["IsTruncated"] else None,
            [entry["Size"] for entry in contents],
            [entry["ETag"].strip('"') for entry in contents],
        )

    def create_upload(self, key: str) -> str:
        return str(self._ask("create_multipart_upload", Key=key)["UploadId"])

    def put_part(self, key: str, upload: str, number: int, content: bytes) -> Reply:
        return _boto_reply(
            self._ask("upload_part", Key=key, UploadId=upload, PartNumber=number, Body=content)
        )

    def copy_part(self, key: str, upload: str, number: int, source: str, range: str) -> Reply:
        answer = self._ask(
            "upload_part_copy",
            Key=key,
            UploadId=upload,
            PartNumber=number,
            CopySource={"Bucket": self._bucket, "Key": source},
            CopySourceRange=f"bytes={range}",
        )
        etag = answer.get("CopyPartResult", {}).get("ETag", "").strip('"')
        return replace(_boto_reply(answer), etag=etag)

    def parts(self, key: str, upload: str, after: int = 0, limit: int = 1000) -> list[tuple[int, int, str]]:
        answer = self._ask("list_parts", Key=key, UploadId=upload, MaxParts=limit, PartNumberMarker=after)
        return [
            (entry["PartNumber"], entry["Size"], entry["ETag"].strip('"'))
            for entry in answer.get("Parts", [])
        ]

    def complete(self, key: str, upload: str, parts: Sequence[tuple[int, str]]) -> Reply:
        named = {"Parts": [{"PartNumber": number, "ETag": etag} for number, etag in parts]}
        return _boto_reply(
            self._ask("complete_multipart_upload", Key=key, UploadId=upload, MultipartUpload=named)
        )

    def abort(self, key: str, upload: str) -> Reply:
        return _boto_reply(self._ask("abort_multipart_upload", Key=key, UploadId=upload))

    def uploads(self, prefix: str = "") -> list[tuple[str, str]]:
        answer = self._ask("list_multipart_uploads", Prefix=prefix)
        return [(entry["Key"], entry["UploadId"]) for entry in answer.get("Uploads", [])]

    def signed_url(self, method: str, key: str, seconds: int = 60) -> str:
        operation = {"GET": "get_object", "PUT": "put_object", "HEAD": "head_object"}[method]
        parameters = {"Bucket": self._bucket, "Key": key}
        return str(self._client.generate_presigned_url(operation, Params=parameters, ExpiresIn=seconds))


Client = Union[Sdk, Boto]


def put_in_parts(client: Client, key: str, content: bytes, cuts: Sequence[int]) -> None:
    """Stores an object in parts that begin at these offsets: its ETag is made of their MD5s."""
    upload, etags = client.create_upload(key), []
    for number, (start, end) in enumerate(zip(cuts, [*cuts[1:], len(content)]), start=1):
        etags.append((number, client.put_part(key, upload, number, content[start:end]).etag))
    assert client.complete(key, upload, etags).status == 200


def _boto_reply(answer: dict[str, Any]) -> Reply:
    about = answer["ResponseMetadata"]
    status, headers = about["HTTPStatusCode"], about["HTTPHeaders"]
    if status >= 300:
        code = str(answer.get("Error", {}).get("Code", ""))
        return Reply(status, "" if code.isdecimal() else code)
    body = answer.get("Body")
    return Reply(
        status,
        content=body.read() if body is not None else b"",
        etag=answer.get("ETag", "").strip('"'),
        size=int(headers.get("content-length", -1)),
        content_type=headers.get("content-type", ""),
        metadata=answer.get("Metadata", {}),
    )
