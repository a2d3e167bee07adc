"""Servers that several tests share."""

from __future__ import annotations

import logging
import threading
from typing import Iterator

import boto3
import pytest
from moto.moto_server.werkzeug_app import create_backend_app
from werkzeug.serving import make_server

from tests.faulty_proxy import FaultyProxy

CREDENTIALS = {"OBS_ACCESS_KEY_ID": "AKPLANTED", "OBS_SECRET_ACCESS_KEY": "SKPLANTED"}


@pytest.fixture(scope="session")
def s3_url() -> Iterator[str]:
    """A real S3-compatible server on loopback."""
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    # S3 alone: moto's whole server takes a V2 signature with '/' in it for the name of another service.
    server = make_server("127.0.0.1", 0, create_backend_app("s3"), threaded=True)
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


@pytest.fixture
def obs(s3_url: str) -> Iterator[FaultyProxy]:
    """The server behind a proxy that breaks what it is told to; with an empty bucket named `bucket`."""
    client = boto3.client(
        "s3", endpoint_url=s3_url, aws_access_key_id="a", aws_secret_access_key="s", region_name="us-east-1"
    )
    if any(bucket["Name"] == "bucket" for bucket in client.list_buckets()["Buckets"]):
        for page in client.get_paginator("list_objects_v2").paginate(Bucket="bucket"):
            for found in page.get("Contents", ()):
                client.delete_object(Bucket="bucket", Key=found["Key"])
    else:
        client.create_bucket(Bucket="bucket")
    with FaultyProxy(s3_url) as proxy:
        yield proxy
