"""Files and keys whose names end like those of unfinished files: none is left out in silence, in either direction."""

from __future__ import annotations

from pathlib import Path

import pytest

from path_mapping.errors import UnsafeTarget
from tests import transfers
from tests.conformance.conftest import RADOSGW
from tests.conformance.faults.conftest import Bucket
from tests.transfers import tree, write

pytestmark = RADOSGW

OWN = {"x.ma_part": b"1", ".ma_part": b"2", ".x.ma_part": b"3", "d/.net.abc.ma_part": b"4"}
RESERVED = ".x.0123456789ab.ma_part"


def test_names_that_only_end_so_are_moved_like_all_others(bucket: Bucket, tmp_path: Path) -> None:
    write(tmp_path / "out", OWN)
    route = transfers.route("out", "out/", bucket.name)
    assert transfers.send(bucket.store(), tmp_path, route).files == len(OWN)
    assert {key[4:]: bucket.witness.get(key).content for key in bucket.witness.page().keys} == OWN
    back = transfers.route("in", "out/", bucket.name)
    assert transfers.fetch(bucket.store(), tmp_path, back).files == len(OWN)
    assert tree(tmp_path / "in") == OWN
    assert transfers.fetch(bucket.store(), tmp_path, back).skipped == len(OWN)


@pytest.mark.parametrize(
    "name", [RESERVED, ".x.0123456789abcdef.ma_part", ".x.0123456789abcdef.parts.ma_part"]
)
def test_a_key_that_an_unfinished_file_could_have_is_refused(
    bucket: Bucket, tmp_path: Path, name: str
) -> None:
    bucket.witness.put(f"data/sub/{name}", b"content")
    bucket.witness.put("data/a", b"a")
    with pytest.raises(UnsafeTarget, match="unfinished") as raised:
        transfers.fetch(bucket.store(), tmp_path, transfers.route("in", "data/", bucket.name))
    assert name in str(raised.value)
    assert tree(tmp_path) == {}
    without = transfers.route("in", "data/", bucket.name, exclude=("*.ma_part",))
    assert transfers.fetch(bucket.store(), tmp_path, without).files == 1


def test_an_unfinished_file_in_an_output_is_named(bucket: Bucket, tmp_path: Path) -> None:
    write(tmp_path / "out", {RESERVED: b"half", "old": b"o", "a": b"a"})
    route = transfers.route("out", "out/", bucket.name, delete=True)
    done = transfers.send(bucket.store(), tmp_path, route)
    assert done.files == 2
    (notice,) = done.notices
    assert RESERVED in notice
    assert "unfinished" in notice
    (tmp_path / "out" / "old").unlink()
    transfers.send(bucket.store(), tmp_path, route)
    assert bucket.witness.page().keys == ["out/a"], "it hides nothing from `delete`"
