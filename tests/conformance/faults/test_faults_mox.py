"""`path_mapping.file` against radosgw through a proxy that breaks requests, with boto3 as the witness."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Callable

import pytest

import path_mapping as mox
from path_mapping.errors import Refused, Replaced, TransferFailed, Unreachable
from path_mapping.file import file_tree
from tests.conformance.clients import Account, Boto, put_in_parts
from tests.conformance.conftest import variables
from tests.obs import Fault, FaultProxy, Seen, operation
from tests.transfers import tree, write

pytestmark = pytest.mark.radosgw

BODY = os.urandom(3_500_001)
PASSING: dict[str, dict[str, Any]] = {
    "500": {"status": 500},
    "503": {"status": 503, "code": "SlowDown"},
    "reset": {"reset": True},
}


@pytest.fixture(scope="module")
def proxy(radosgw_account: Account) -> Iterator[FaultProxy]:
    with FaultProxy(radosgw_account.url) as proxy:
        yield proxy


@pytest.fixture
def boto(radosgw_account: Account) -> Boto:
    """An empty bucket as boto3 sees it."""
    boto = Boto(radosgw_account, f"bucket-{uuid.uuid4().hex[:12]}")
    assert boto.create_bucket().status == 200
    return boto


@pytest.fixture
def url(
    boto: Boto, radosgw_account: Account, proxy: FaultProxy, monkeypatch: pytest.MonkeyPatch
) -> Iterator[str]:
    """The bucket's URL for `path_mapping.file`, which goes through the proxy."""
    monkeypatch.delenv("PATH_MAPPING_OBS_ROOT", raising=False)
    for variable, value in variables(radosgw_account, proxy.url).items():
        monkeypatch.setenv(variable, value)
    monkeypatch.setattr(file_tree, "_settings", {})
    file_tree.set_auth()
    proxy.faults.clear()
    proxy.seen.clear()
    yield f"obs://{boto.bucket}"
    file_tree.set_auth()


def through_file(url: str, local: Path) -> bool:
    with mox.file.File(f"{url}/d/a", "rb") as file:
        return bool(file.read(5) == b"hello")


def downloaded(url: str, local: Path) -> bool:
    mox.file.copy(f"{url}/d/a", str(local / "x"))
    return (local / "x").read_bytes() == b"hello"


def uploaded(url: str, local: Path) -> bool:
    (local / "up").write_bytes(b"up")
    mox.file.copy(str(local / "up"), f"{url}/up")
    return bool(mox.file.read(f"{url}/up") == "up")


def copied(url: str, local: Path) -> bool:
    mox.file.copy(f"{url}/d/a", f"{url}/e/b")
    return bool(mox.file.read(f"{url}/e/b") == "hello")


def written(url: str, local: Path) -> bool:
    mox.file.write(f"{url}/w", "new")
    return bool(mox.file.read(f"{url}/w") == "new")


def removed(url: str, local: Path) -> bool:
    mox.file.remove(f"{url}/d/a")
    return not mox.file.exists(f"{url}/d/a")


@pytest.mark.parametrize("kind", PASSING)
@pytest.mark.parametrize(
    ("broken", "works"),
    [
        ("HeadObject", lambda url, local: mox.file.exists(f"{url}/d/a")),
        ("ListObjects", lambda url, local: mox.file.list_directory(url) == ["d"]),
        ("PutObject", written),
        ("GetObject", through_file),
        ("CopyObject", copied),
        ("GetObject", downloaded),
        ("PutObject", uploaded),
        ("DeleteObject", removed),
    ],
)
def test_a_failure_that_passes_is_retried(
    boto: Boto,
    url: str,
    proxy: FaultProxy,
    tmp_path: Path,
    kind: str,
    broken: str,
    works: Callable[[str, Path], bool],
) -> None:
    boto.put("d/a", b"hello")
    fault = Fault(operation(broken), **PASSING[kind])
    proxy.faults.append(fault)
    assert works(url, tmp_path)
    assert fault.times == 0, "nothing was broken"


def test_a_copy_answered_with_an_error_in_a_200_is_retried(boto: Boto, url: str, proxy: FaultProxy) -> None:
    boto.put("a", b"hello")
    proxy.faults.append(
        Fault(operation("CopyObject"), status=200, body=b"<Error><Code>InternalError</Code></Error>")
    )
    mox.file.copy(f"{url}/a", f"{url}/b")
    assert boto.get("b").content == b"hello"


def test_a_directory_is_deleted_in_bulk_and_what_fails_is_tried_again(
    boto: Boto, url: str, proxy: FaultProxy
) -> None:
    keys = ["d/a b+%&<>\"'ü中.", "d/end ", "d/line\r\n", "d/plain"]
    for key in keys:
        boto.put(key, b"x")
    failed = b"<DeleteResult><Error><Key>d/plain</Key><Code>%s</Code></Error></DeleteResult>"
    for code in (b"InternalError", b"SlowDown", b"ServiceUnavailable"):
        proxy.faults.append(Fault(operation("DeleteObjects"), status=200, body=failed % code))
    proxy.faults.append(Fault(operation("DeleteObjects"), reset=True))
    mox.file.remove(f"{url}/d", recursive=True)
    assert boto.page().keys == []
    assert proxy.count("DeleteObjects") == 5
    boto.put("d/plain", b"x")
    proxy.faults.append(Fault(operation("DeleteObjects"), status=200, body=failed % b"AccessDenied"))
    with pytest.raises(Refused, match=r"deleting obs://.*/d/plain: HTTP 403 AccessDenied"):
        mox.file.remove(f"{url}/d", recursive=True)


@pytest.mark.parametrize("broken", [{"cut_answer": 1_500_000}, {"cut_answer": 1_500_000, "reset": True}, {"flip_answer": 1_500_000}])  # fmt: skip
def test_a_complete_read_returns_the_stored_content(
    boto: Boto, url: str, proxy: FaultProxy, broken: dict[str, Any]
) -> None:
    boto.put("a", BODY)
    for mode in ("rb", "r+b"):
        proxy.faults.append(Fault(operation("GetObject"), **broken))
        with mox.file.File(f"{url}/a", mode) as file:
            assert file.read() == BODY
    assert not [fault for fault in proxy.faults if fault.times]


def test_wrong_content_is_never_read_in_pieces_without_an_error(
    boto: Boto, url: str, proxy: FaultProxy
) -> None:
    boto.put("a", BODY)
    proxy.faults.append(Fault(operation("GetObject"), flip_answer=1_500_000))
    with mox.file.File(f"{url}/a", "rb") as file:
        pieces = iter(lambda: file.read(100_000), b"")
        with pytest.raises(Unreachable, match="MD5 in OBS is"):
            list(pieces)


def test_a_file_is_one_version_of_its_object(boto: Boto, url: str, proxy: FaultProxy) -> None:
    boto.put("a", BODY)
    with mox.file.File(f"{url}/a", "rb") as file:
        assert file.read(10) == BODY[:10]
        boto.put("a", BODY[::-1])
        file.seek(3_000_000)
        with pytest.raises(Replaced):
            file.read(10)


def test_an_object_overwritten_with_the_same_size_is_copied(boto: Boto, url: str, tmp_path: Path) -> None:
    (tmp_path / "d").mkdir()
    (tmp_path / "d" / "a").write_text("mine!")
    for copy, source, target in (
        (mox.file.copy, "d/a", "one/a"),
        (mox.file.copy_parallel, "d", "many"),
    ):
        copy(f"{tmp_path}/{source}", f"{url}/{target}")
        key = f"{target.partition('/')[0]}/a"
        boto.put(key, b"other")
        copy(f"{tmp_path}/{source}", f"{url}/{target}")
        assert boto.get(key).content == b"mine!"


def test_a_copy_leaves_nothing_beside_its_target(boto: Boto, url: str, tmp_path: Path) -> None:
    boto.put("a", b"hello")
    for _ in range(2):
        mox.file.copy(f"{url}/a", f"{tmp_path}/in/a")
        mox.file.copy(f"{tmp_path}/in/a", f"{url}/b")
    assert [path.name for path in tmp_path.rglob("*")] == ["in", "a"]


def test_a_tree_is_compared_by_content_and_leaves_no_record(
    url: str, proxy: FaultProxy, tmp_path: Path
) -> None:
    files = {"large": BODY * 20, "small": b"small"}  # 67 MiB go in parts
    write(tmp_path / "d", files)
    copies: list[Callable[[], None]] = [
        lambda: mox.file.copy_parallel(f"{tmp_path}/d", f"{url}/d"),
        lambda: mox.file.copy_parallel(f"{url}/d", f"{tmp_path}/in"),
    ]
    for copy in copies:
        copy()
        before = proxy.count("PutObject", "UploadPart", "GetObject")
        copy()
        assert proxy.count("PutObject", "UploadPart", "GetObject") == before
    assert tree(tmp_path / "in") == files
    mox.file.rename(f"{tmp_path}/d", f"{url}/moved")
    mox.file.rename(f"{url}/moved", f"{tmp_path}/back")
    assert tree(tmp_path / "back") == files
    assert sorted(path.name for path in tmp_path.iterdir()) == ["back", "in"]


def test_a_large_file_is_written_in_parts_that_are_retried(boto: Boto, url: str, proxy: FaultProxy) -> None:
    content = os.urandom(1 << 20) * 65
    proxy.faults.append(Fault(operation("UploadPart"), status=500))
    mox.file.write(f"{url}/large", content, binary=True)
    assert boto.get("large").content == content
    assert proxy.count("CreateMultipartUpload") == 1
    proxy.faults.append(Fault(operation("GetObject"), flip_answer=100_000))
    assert mox.file.read(f"{url}/large", binary=True) == content


def test_an_object_of_unusual_parts_is_read_twice(boto: Boto, url: str, proxy: FaultProxy) -> None:
    content = os.urandom(3 << 20) * 4
    put_in_parts(boto, "odd", content, [0, 5_300_000, 11_000_000])
    proxy.faults.append(Fault(operation("GetObject"), flip_answer=100_000))
    assert mox.file.read(f"{url}/odd", binary=True) == content
    assert proxy.count("GetObject") == 3


@pytest.mark.parametrize("parts", ["usual", "odd"])
def test_an_object_of_parts_is_compared_when_it_is_read_in_pieces(
    boto: Boto, url: str, proxy: FaultProxy, parts: str
) -> None:
    content = BODY * 4
    cuts = [0, 5_300_000, 11_000_000] if parts == "odd" else [0, 5 << 20, 10 << 20]
    put_in_parts(boto, "a", content, cuts)
    with mox.file.File(f"{url}/a", "rb") as file:
        assert b"".join(iter(lambda: file.read(100_000), b"")) == content
    assert proxy.count("GetObject") == (1 if parts == "usual" else 2)
    proxy.faults.append(Fault(operation("GetObject"), flip_answer=100_000))
    with mox.file.File(f"{url}/a", "rb") as file:
        with pytest.raises(Unreachable, match="ETag in OBS"):
            list(iter(lambda: file.read(100_000), b""))
        file.seek(0)
        assert file.read() == content


def test_a_missing_bucket_does_not_exist(url: str) -> None:
    assert (mox.file.exists(url), mox.file.is_directory(url)) == (True, True)
    assert not mox.file.exists(f"{url}-none")
    assert not mox.file.is_directory(f"{url}-none/")


def test_renames_lose_nothing(boto: Boto, url: str, tmp_path: Path) -> None:
    keys = ["out", "out/a", "out/backup/a", "out/backup/backup/a"]
    for key in keys:
        boto.put(key, key.encode())
    for source, target in (("out/", "out/backup"), ("out/", "out/new"), ("out/backup", "out")):
        with pytest.raises(OSError, match=r"directory|empty"):
            mox.file.rename(f"{url}/{source}", f"{url}/{target}")
    for source, target in (("out/", "out/"), ("out/a", "out/a"), ("out/a", "out/")):
        mox.file.rename(f"{url}/{source}", f"{url}/{target}")
    assert boto.page().keys == keys
    mox.file.rename(f"{url}/out/", f"{url}/moved")
    assert boto.page().keys == ["moved/a", "moved/backup/a", "moved/backup/backup/a", "out"]
    mox.file.rename(f"{url}/out", f"{tmp_path}/out")
    assert (tmp_path / "out").read_text() == "out"


def test_a_rename_deletes_only_what_it_has_copied(
    boto: Boto, url: str, proxy: FaultProxy, tmp_path: Path
) -> None:
    for key in ("d/a", "d/b"):
        boto.put(key, b"old")

    def meanwhile(seen: object) -> None:
        boto.put("d/b", b"new")
        boto.put("d/c", b"new")

    proxy.faults.append(Fault(_after_the_content_of("d/b"), before=meanwhile))
    with pytest.raises(Replaced, match="d/b"):
        mox.file.rename(f"{url}/d", f"{tmp_path}/d")
    assert boto.page().keys == ["d/b", "d/c"]
    assert (tmp_path / "d" / "a").read_bytes() == b"old"


def _after_the_content_of(key: str) -> Callable[[Seen], bool]:
    """Picks the first listing after this object was read."""
    read: list[Seen] = []

    def when(seen: Seen) -> bool:
        if seen.operation == "GetObject" and seen.path.endswith(key):
            read.append(seen)
        return bool(read) and seen.operation == "ListObjects"

    return when


def test_a_local_directory_is_moved_without_losing_what_cannot_go(
    boto: Boto, url: str, tmp_path: Path, proxy: FaultProxy
) -> None:
    local = tmp_path / "d"
    (local / "sub").mkdir(parents=True)
    (local / "a").write_text("a")
    (local / "sub" / "link").symlink_to("nowhere")
    with pytest.raises(TransferFailed, match="link"):
        mox.file.rename(str(local), f"{url}/d")
    assert (local / "a").read_text() == "a"
    (local / "sub" / "link").unlink()

    def meanwhile(seen: Seen) -> None:
        (local / "sub" / "late").write_text("late")
        (local / "a").write_text("changed")

    proxy.faults.append(Fault(operation("PutObject"), before=meanwhile))
    (local / "b").write_text("b")
    with pytest.raises(OSError, match="not moved"):
        mox.file.rename(str(local), f"{url}/d")
    assert sorted(path.name for path in local.rglob("*")) == ["a", "late", "sub"]
    assert boto.get("d/b").content == b"b"
