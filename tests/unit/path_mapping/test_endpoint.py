"""An endpoint that begins with the bucket."""

from __future__ import annotations

import pytest

from path_mapping.stores.access import endpoint_without_bucket


@pytest.mark.parametrize(
    ("host", "rest"),
    [
        ("bkt.obs.cn-north-4.myhuaweicloud.com", "obs.cn-north-4.myhuaweicloud.com"),
        ("bkt.s3.example.com", "s3.example.com"),
        ("bkt.localhost", "localhost"),
        ("obs.cn-north-4.myhuaweicloud.com", ""),
        ("bkt.example.com", ""),
        ("bkt2.obs.example.com", ""),
        ("bkt", ""),
    ],
)
def test_bucket_before_an_endpoint_is_recognised(host: str, rest: str) -> None:
    assert endpoint_without_bucket(host, "bkt") == rest


def test_bucket_with_the_name_of_the_service_is_no_mistake() -> None:
    assert endpoint_without_bucket("obs.cn-north-4.myhuaweicloud.com", "obs") == ""
