"""Listings: order, pages, prefixes and delimiters."""

from __future__ import annotations

import hashlib

import pytest

from tests.conformance.clients import Client


def fill(client: Client, *keys: str) -> None:
    for key in keys:
        client.put(key, key.encode())


def pages(
    client: Client, limit: int, prefix: str = "", delimiter: str = ""
) -> list[tuple[list[str], list[str]]]:
    """All pages: each one's keys and common prefixes."""
    listed, marker = [], ""
    while True:
        page = client.page(prefix, marker, delimiter, limit)
        listed.append((page.keys, page.prefixes))
        if page.next is None:
            return listed
        marker = page.next


def test_an_empty_bucket(client: Client) -> None:
    page = client.page()
    assert (page.keys, page.prefixes, page.next) == ([], [], None)


def test_sizes_and_etags(client: Client) -> None:
    fill(client, "a", "bb")
    page = client.page()
    assert page.sizes == [1, 2]
    assert page.etags == [hashlib.md5(key.encode()).hexdigest() for key in ("a", "bb")]


def test_the_order_is_that_of_utf_8(client: Client) -> None:
    keys = ["Z", "a", "a b", "a/b", "a0", "ab", "é", "z", "中", "😀", "\uffee"]
    fill(client, *keys)
    assert client.page().keys == sorted(keys, key=str.encode)


def test_a_prefix_matches_the_start_of_the_key_not_whole_parts(client: Client) -> None:
    fill(client, "data/a", "data/b", "data2/c", "dat")
    assert client.page("data").keys == ["data/a", "data/b", "data2/c"]
    assert client.page("data/").keys == ["data/a", "data/b"]
    assert client.page("data/b/").keys == []


@pytest.mark.parametrize("limit", [1, 3, 7, 8, 1000])
def test_pages_list_every_key_once(client: Client, limit: int) -> None:
    keys = [f"p/{number}" for number in range(7)]
    fill(client, *keys, "q")
    listed = pages(client, limit, "p/")
    assert [key for page, _ in listed for key in page] == keys
    assert all(len(page) <= limit for page, _ in listed)
    assert len(listed) == -(-7 // limit), "a full last page says that it is the last"


def test_a_marker_need_not_exist(client: Client) -> None:
    fill(client, "a", "b", "d")
    assert client.page(marker="b").keys == ["d"]
    assert client.page(marker="c").keys == ["d"]
    assert client.page(marker="d").keys == []


def test_a_delimiter_groups_keys(client: Client) -> None:
    fill(client, "a", "d/1", "d/2", "d/e/3", "d0", "f/4")
    page = client.page(delimiter="/")
    assert (page.keys, page.prefixes) == (["a", "d0"], ["d/", "f/"])
    page = client.page("d/", delimiter="/")
    assert (page.keys, page.prefixes) == (["d/1", "d/2"], ["d/e/"])


@pytest.mark.parametrize("limit", [1, 2, 3])
def test_pages_with_a_delimiter_repeat_nothing(client: Client, limit: int) -> None:
    fill(client, "a", "d/1", "d/2", "d/3", "e", "f/1", "f/2", "g")
    listed = pages(client, limit, delimiter="/")
    assert [key for page, _ in listed for key in page] == ["a", "e", "g"]
    assert [prefix for _, page in listed for prefix in page] == ["d/", "f/"]
    assert all(len(keys) + len(prefixes) <= limit for keys, prefixes in listed)


def test_a_marker_may_be_a_common_prefix(client: Client) -> None:
    keys = ["dir/", "dir/a", "dir0"]
    fill(client, *keys)
    assert client.page().keys == keys
    page = client.page("dir/", delimiter="/")
    assert (page.keys, page.prefixes) == (["dir/", "dir/a"], [])
