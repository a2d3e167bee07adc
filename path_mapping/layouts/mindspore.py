"""MindSpore's and MindFormers' layouts. Pure."""

from __future__ import annotations

from path_mapping.layouts.layout import BASE, Layout, Marker, Need

_RANK = r"(?:(?:rank|ckpt|device)_?(?P<rank>\d+)/)?"
_SAVED = r"(?P<epoch>\d+)_(?P<step>\d+)\.(?:ckpt|safetensors|tmp)"

# `ModelCheckpoint`: `<prefix>-<epoch>_<step in the epoch>.ckpt`, a directory per rank. A file gets its name
# by a rename from `<stem>.tmp` (mindspore/train/serialization.py), so it is whole when all ranks have
# theirs.
MINDSPORE = Layout(
    name="mindspore",
    files=(BASE + _RANK + rf"(?P<name>[^/]+-{_SAVED})",),
    tells=r"(?:.*/)?[^/]+-\d+_\d+\.(?:ckpt|safetensors)",
    by_rank=True,
    ends=True,
    own_files=True,
)

# MindFormers 1: `rank_k/<prefix>_rank_k-<epoch>_<step>.safetensors`, and the weights alone in a second tree.
# To resume, rank 0 reads the `meta.json` of all ranks (mindformers/tools/resume_ckpt.py), so each node has
# all.
MINDFORMERS = Layout(
    name="mindformers",
    files=(
        BASE + rf"checkpoint_(?:network|trainable)/rank_(?P<rank>\d+)/[^/]+-{_SAVED}",
        BASE + rf"rank_(?P<rank>\d+)/(?P<name>[^/]*_rank_(?P=rank)-{_SAVED})",
    ),
    tells=r"(?:.*/)?rank_(\d+)/[^/]*_rank_\1-\d+_\d+\.(?:ckpt|safetensors)",
    by_rank=True,
    ends=True,
    pointers=(r"(?:.*/)?rank_\d+/meta\.json", r"(?:.*/)?resume_record/latest_checkpointed_iteration\.txt"),
    markers=(
        Marker(
            "{base}rank_{rank}/meta.json",
            '{{"last_epoch": {epoch}, "last_step": {step}, "last_ckpt_file": {quoted}}}',
        ),
    ),
)

# MindFormers' Checkpoint 2.0: all ranks write into `iteration_00000100/`, the names have the rank and the
# number of files. Saved asynchronously, `metadata.json` comes before the weights
# (mindformers/checkpoint/checkpoint.py).
MINDFORMERS2 = Layout(
    name="mindformers2",
    files=(
        BASE + r"iteration_(?P<step>\d{8,})/[^/]*-(?P<rank>\d{7})-\d{7}\.safetensors",
        BASE + r"iteration_(?P<step>\d{8,})/.+",
    ),
    tells=r"(?:.*/)?iteration_\d{8,}/.+",
    needs=(
        Need("common.json", r".*/common\.json"),
        Need("metadata.json", r".*/metadata\.json"),
    ),
    by_rank=True,
    metadata=(r".*/common\.json", r".*/metadata\.json"),
    pointers=(r"(?:.*/)?latest_checkpointed_iteration\.txt",),
    markers=(Marker("{base}latest_checkpointed_iteration.txt", "{step}"),),
    bound=(),
)
