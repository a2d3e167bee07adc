"""Servers that several tests share."""

from __future__ import annotations

import logging
import threading
from typing import Iterator

import pytest
from hypothesis import HealthCheck, settings
from moto.moto_server.werkzeug_app import create_backend_app
from obs import ObsClient
from werkzeug.serving import make_server

from tests.faulty_proxy import FaultyProxy

settings.register_profile("fuzz", max_examples=50_000, deadline=None, suppress_health_check=list(HealthCheck))

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
    client = ObsClient("a", "s", server=s3_url, path_style=True)
    if client.headBucket("bucket").status >= 300:
        client.createBucket("bucket")
    while True:
        left = client.listObjects("bucket", encoding_type="url").body.contents
        if not left:
            break
        for found in left:
            client.deleteObject("bucket", found.key)
    with FaultyProxy(s3_url) as proxy:
        yield proxy
