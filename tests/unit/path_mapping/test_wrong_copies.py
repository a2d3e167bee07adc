"""Keys and endpoints that were copied wrongly."""

from __future__ import annotations

import pytest

from path_mapping.stores.access import fault_of_endpoint, faults_of_key


@pytest.mark.parametrize(
    ("text", "faults"),
    [
        (" AK", ["a blank at its beginning"]),
        ("AK\t", ["a blank at its end"]),
        ("AK\n", ["a line break at its end"]),
        ("AK\r\n", ["a line break at its end"]),
        ("  AK ", ["blanks around it"]),
        ("A K", ["a blank inside"]),
        ("A\nK", ["a line break inside"]),
        ('"AK"', ["quotes around it"]),
        ("\u2018AK\u2019", ["quotes around it"]),
        ("'AK", ["a quote at its beginning"]),
        ("'AK' \n", ["quotes around it", "a blank at its end", "a line break at its end"]),
        ("A\uff2b", ["the non-ASCII character U+FF2B at its end"]),
        ("\ufeffAK", ["the invisible character U+FEFF at its beginning"]),
        ("A\u200bK\u200b", ["the invisible character U+200B inside", "the invisible character U+200B at its end"]),
        (" \n", ["nothing but blanks and quotes"]),
        ("<AK>", ["a placeholder in its place"]),
        ("${OBS_AK}", ["a placeholder in its place"]),
        ("$OBS_AK", ["a placeholder in its place"]),
        ("HPUA******", ["the asterisks of a masked value"]),
    ],
)  # fmt: skip
def test_each_mistake_of_a_copy_is_described_with_its_place(text: str, faults: list[str]) -> None:
    assert faults_of_key(text) == faults


@pytest.mark.parametrize(
    "key", ["", "HPUABCDEFGHIJKLMNOPQ", "a+/=_-.~:@%$1", "gQpjbi1ub3J0aC00iYfd=", "minio{key}9", "a*b"]
)
def test_right_keys_and_tokens_have_no_fault(key: str) -> None:
    assert faults_of_key(key) == []


@pytest.mark.parametrize(
    "endpoint",
    ["https://obs.example.com", "https://obs.example.com/", "obs.example.com", "http://127.0.0.1:9000", "[::1]:80"],
)  # fmt: skip
def test_url_of_a_server_has_no_fault(endpoint: str) -> None:
    assert fault_of_endpoint(endpoint) == ""


@pytest.mark.parametrize(
    ("endpoint", "expected"),
    [
        (" https://obs.example.com", "no blank at its beginning"),
        ("'obs.example.com'", "no quotes around it"),
        ("https://obs.example.com\n", "no line break at its end"),
        ("https\uff1a//obs.example.com", "no non-ASCII character U+FF1A inside"),
        ("https://obs.example.com/bkt", "no path '/bkt' after the server"),
        ("'https://obs.example.com/bkt/'", "no quotes around it, no path '/bkt/' after the server"),
        ("https://obs.example.com?a=b", "no path '?a=b' after the server"),
        ("obs://bkt", "https://obs.REGION.example.com"),
        ("https://", "https://obs.REGION.example.com"),
        (" ", "https://obs.REGION.example.com"),
        ("http://[::1", "https://obs.REGION.example.com"),
        ("https://obs.example.com:0", "a port from 1 to 65535"),
    ],
)
def test_faults_of_an_endpoint_are_named_together(endpoint: str, expected: str) -> None:
    fault = fault_of_endpoint(endpoint)
    assert fault.startswith(f"found {endpoint!r}, expected ")
    assert expected in fault


def test_login_in_an_endpoint_is_not_shown() -> None:
    assert (
        fault_of_endpoint("https://ak:sk@obs.example.com")
        == "found 'obs.example.com', expected no login before the server"
    )
