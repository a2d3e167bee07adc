"""Routes a request to its operation; has the operations on buckets."""

from __future__ import annotations

from typing import Callable, Dict, List, Tuple
from urllib.parse import unquote, unquote_plus

from ma_boot.rehearsal.obs_server import object_operations, part_operations
from ma_boot.rehearsal.obs_server.call import Call, texts
from ma_boot.rehearsal.obs_server.storage import MAX_KEYS, Refusal
from ma_boot.rehearsal.obs_server.wire import SIGNED_PARAMETERS, HttpResponse, ListingQuery, responses

PLAIN = {  # signed parameters that do not select an operation
    "length",
    "name",
    "partNumber",
    "position",
    "versionId",
    "response-cache-control",
    "response-content-disposition",
    "response-content-encoding",
    "response-content-language",
    "response-content-type",
    "response-expires",
}


def perform(call: Call) -> HttpResponse:
    """Performs the operation of a request; raises `Refusal` if it fails or is not implemented."""
    on = "object" if call.key else "bucket" if call.bucket_name else "service"
    chosen = {name for name in call.request.parameters if name.lower() in SIGNED_PARAMETERS} - PLAIN
    operation = ROUTES.get((call.request.method, on, *sorted(chosen)))
    if operation is None:
        raise Refusal("NotImplemented", f"{call.request.method} of a {on} with {sorted(chosen)}")
    return operation(call)


def list_buckets(call: Call) -> HttpResponse:
    """Lists the buckets."""
    return responses.buckets(call.buckets.names(), call.prefix)


def create_bucket(call: Call) -> HttpResponse:
    """Creates the bucket; an existing one is not an error."""
    call.buckets.create(call.bucket_name)
    return HttpResponse(200, {"Location": f"/{call.bucket_name}"})


def head_bucket(call: Call) -> HttpResponse:
    """Checks that the bucket exists, and says where it is."""
    name = "bucket-location" if call.prefix == "x-obs-" else "bucket-region"
    region = call.buckets.get(call.bucket_name).region
    return HttpResponse(200, {f"{call.prefix}{name}": region} if region else {})


def delete_bucket(call: Call) -> HttpResponse:
    """Deletes the bucket if it is empty."""
    call.buckets.delete(call.bucket_name)
    return HttpResponse(204)


def location(call: Call) -> HttpResponse:
    """The region of the bucket."""
    call.buckets.get(call.bucket_name)
    return responses.location(call.prefix)


def list_objects(call: Call) -> HttpResponse:
    """Lists one page of the objects, by version 1 or 2 of the API."""
    version = call.parameter("list-type") or "1"
    token = unquote(call.parameter("continuation-token")) or call.parameter("start-after")
    asked = ListingQuery(
        call.bucket_name,
        call.parameter("prefix"),
        token if version == "2" else call.parameter("marker"),
        call.parameter("delimiter"),
        call.number("max-keys", MAX_KEYS, MAX_KEYS),
        call.is_url_encoded,
        version,
    )
    page, found = call.bucket.page(asked.prefix, asked.marker, asked.delimiter, asked.limit)
    return responses.objects(asked, page, found, call.prefix)


def delete_objects(call: Call) -> HttpResponse:
    """Deletes the objects listed in the body."""
    root = call.document()
    encoded = texts(root, "EncodingType") == ["url"]
    keys: List[str] = texts(root, "Object/Key")
    if not keys or len(keys) > MAX_KEYS:
        raise Refusal("MalformedXML", f"expected 1 to {MAX_KEYS} objects")
    keys = [unquote_plus(key) for key in keys] if encoded else keys
    for key in keys:
        call.bucket.delete(key)
    return responses.deleted(keys, texts(root, "Quiet") == ["true"], encoded, call.prefix)


def put_object(call: Call) -> HttpResponse:
    """Stores the body, or copies an object."""
    is_copy = call.header("copy-source") is not None
    return (object_operations.copy if is_copy else object_operations.put)(call)


ROUTES: Dict[Tuple[str, ...], Callable[[Call], HttpResponse]] = {
    ("GET", "service"): list_buckets,
    ("PUT", "bucket"): create_bucket,
    ("HEAD", "bucket"): head_bucket,
    ("DELETE", "bucket"): delete_bucket,
    ("GET", "bucket"): list_objects,
    ("GET", "bucket", "location"): location,
    ("GET", "bucket", "uploads"): part_operations.pending,
    ("POST", "bucket", "delete"): delete_objects,
    ("PUT", "object"): put_object,
    ("GET", "object"): object_operations.get,
    ("HEAD", "object"): object_operations.get,
    ("DELETE", "object"): object_operations.delete,
    ("POST", "object", "append"): object_operations.append,
    ("POST", "object", "uploads"): part_operations.initiate,
    ("POST", "object", "uploadId"): part_operations.complete,
    ("PUT", "object", "uploadId"): part_operations.put,
    ("GET", "object", "uploadId"): part_operations.parts,
    ("DELETE", "object", "uploadId"): part_operations.abort,
}
