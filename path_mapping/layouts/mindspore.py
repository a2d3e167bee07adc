"""MindSpore's layouts. Pure."""

from __future__ import annotations

from path_mapping.layouts.layout import BASE, Layout

_RANK = r"(?:(?:rank|ckpt|device)_?(?P<rank>\d+)/)?"

# `ModelCheckpoint`: `<prefix>-<epoch>_<step in the epoch>.ckpt`, a directory per rank. A file gets its name
# by a rename from `<stem>.tmp` (mindspore/train/serialization.py), so it is whole when all ranks have
# theirs.
MINDSPORE = Layout(
    name="mindspore",
    files=(BASE + _RANK + r"(?P<name>[^/]+-(?P<epoch>\d+)_(?P<step>\d+)\.(?:ckpt|safetensors|tmp))",),
    tells=(r"(?:.*/)?[^/]+-\d+_\d+\.(?:ckpt|safetensors)",),
    by_rank=True,
    ends=True,
    own_files=True,
)
