"""The error codes of OBS that the server returns, with their HTTP status."""

from __future__ import annotations

STATUS = {
    "AccessDenied": 403,
    "BadDigest": 400,
    "BucketNotEmpty": 409,
    "EntityTooSmall": 400,
    "ExpiredToken": 403,
    "IncompleteBody": 400,
    "InternalError": 500,
    "InvalidAccessKeyId": 403,
    "InvalidArgument": 400,
    "InvalidBucketName": 400,
    "InvalidDigest": 400,
    "InvalidPart": 400,
    "InvalidPartOrder": 400,
    "InvalidRange": 416,
    "InvalidRequest": 400,
    "InvalidToken": 403,
    "InvalidURI": 400,
    "KeyTooLong": 400,
    "MalformedXML": 400,
    "NoSuchBucket": 404,
    "NoSuchKey": 404,
    "NoSuchUpload": 404,
    "NotImplemented": 501,
    "ObjectNotAppendable": 409,
    "PositionNotEqualToLength": 409,
    "PreconditionFailed": 412,
    "RequestTimeTooSkewed": 403,
    "SignatureDoesNotMatch": 403,
    "XAmzContentSHA256Mismatch": 400,
}


class Refusal(Exception):
    """A request fails with an error; `code` is one of STATUS."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.status = STATUS[code]
