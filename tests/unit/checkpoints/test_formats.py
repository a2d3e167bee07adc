"""Truncated files of checkpoints are found by their format, without the framework."""

from __future__ import annotations

import io
import json
import struct
import zipfile

import pytest
from hypothesis import given, strategies as st

from ma_boot.node.checkpoints.layouts.formats import find_damage


def problem(name: str, content: bytes) -> str:
    return find_damage(name, len(content), lambda offset, length: content[offset : offset + length])


def safetensors(*sizes: int) -> bytes:
    header, end = {"__metadata__": {"format": "pt"}}, 0
    for number, size in enumerate(sizes):
        header[f"layer.{number}"] = {"dtype": "U8", "shape": [size], "data_offsets": [end, end + size]}  # type: ignore[dict-item]
        end += size
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + b"w" * end


def saved_by_torch(records: int = 3) -> bytes:
    """As `torch.save` writes it: a zip archive of uncompressed records."""
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_STORED) as archive:
        for number in range(records):
            archive.writestr(f"archive/data/{number}", bytes([number]) * 500)
    return stream.getvalue()


def parameter(name: bytes, size: int) -> bytes:
    """A message of MindSpore's .ckpt: field 1 with the tag and the tensor."""
    tensor = b"\x12" + varint(size) + b"t" * size
    value = b"\x0a" + varint(len(name)) + name + tensor
    return b"\x0a" + varint(len(value)) + value


def varint(number: int) -> bytes:
    content = b""
    while number > 0x7F:
        content += bytes([number & 0x7F | 0x80])
        number >>= 7
    return content + bytes([number])


def saved_by_mindspore(crc: bool = False) -> bytes:
    content = b"".join(parameter(b"layer%d.weight" % number, 40 * (number + 1)) for number in range(4))
    return content + (b"crc_num" + (1234567).to_bytes(10, "big") if crc else b"")


COMPLETE: dict[str, bytes] = {
    "model.safetensors": safetensors(300, 17, 0),
    "empty.safetensors": safetensors(),
    "model.pt": saved_by_torch(),
    "optimizer.bin": saved_by_torch(),
    "epoch=1-step=2.ckpt": saved_by_torch(1),
    "net-1_10.ckpt": saved_by_mindspore(),
    "checked-1_10.ckpt": saved_by_mindspore(crc=True),
    "encrypted-1_10.ckpt": b"\xd8\x5e\x3a\x7f" + b"x" * 200,
    "trainer_state.json": json.dumps({"global_step": 100, "log": [1.5, None]}).encode(),
    "old.pt": b"\x80\x02}q\x00.",
    "__0_0.distcp": b"anything",
}


@pytest.mark.parametrize("name", COMPLETE)
def test_complete_file_has_no_damage(name: str) -> None:
    assert problem(f"a/b.c/{name}", COMPLETE[name]) == ""


CUT = [name for name in COMPLETE if name.split(".")[0] not in ("encrypted-1_10", "old", "__0_0")]


@pytest.mark.parametrize("name", CUT)
def test_a_file_that_is_cut_anywhere_is_found(name: str) -> None:
    """A .ckpt of MindSpore has no end of its own: where a parameter ends, a cut is not seen."""
    content = COMPLETE[name]
    unseen = [length for length in range(len(content)) if not problem(name, content[:length])]
    if name == "net-1_10.ckpt":
        assert len(unseen) == 3
    elif name == "checked-1_10.ckpt":
        assert len(unseen) == 4
    elif "ckpt" in name or name.endswith((".pt", ".bin")):
        assert unseen == [1], "a single P shows no format"
    else:
        assert unseen == []


def test_a_file_that_is_too_long_is_found() -> None:
    assert problem("a.safetensors", safetensors(5) + b"x") == "it has 114 bytes, its header says 113"
    assert "beginning of a parameter" in problem("a-1_1.ckpt", saved_by_mindspore() + b"x")
    assert "it is not JSON" in problem("a.json", b"{}x")


def test_an_empty_file_is_damage_unless_it_may_be_empty() -> None:
    assert problem("__0_0.distcp", b"") == "it is empty"
    assert problem("done.txt", b"") == ""


@pytest.mark.parametrize("suffix", ["safetensors", "pt", "ckpt", "json", "bin"])
@given(
    content=st.binary(max_size=300),
    start=st.sampled_from([b"", b"PK\x03\x04", b"\x0a", b"\x10" + b"\0" * 7 + b"{"]),
)
def test_no_content_breaks_the_check(suffix: str, content: bytes, start: bytes) -> None:
    assert isinstance(problem(f"a.{suffix}", start + content), str)


@pytest.mark.parametrize(
    "header",
    [b"[]", b"{}", b'{"a": 1}', b'{"a": {"data_offsets": []}}', b'{"a": {"data_offsets": ["x", "y"]}}', b"[" * 9999],
)  # fmt: skip
def test_invalid_header_of_safetensors_is_damage(header: bytes) -> None:
    message = problem("a.safetensors", struct.pack("<Q", len(header)) + header)
    assert message == "" if header == b"{}" else "header" in message


def test_only_headers_and_directories_are_read() -> None:
    """No tensor is read, as a checkpoint may have terabytes."""
    for name, content in {
        "a.safetensors": safetensors(1 << 20),
        "a-1_1.ckpt": parameter(b"w", 1 << 20) * 3,
    }.items():
        asked: list[int] = []

        def read(offset: int, length: int, content: bytes = content, asked: list[int] = asked) -> bytes:
            asked.append(length)
            return content[offset : offset + length]

        assert find_damage(name, len(content), read) == ""
        assert sum(asked) < 500
