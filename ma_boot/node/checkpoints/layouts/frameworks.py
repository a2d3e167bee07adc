"""Layouts of MindSpore, PyTorch and frameworks on top of them; each mark with its source. Pure."""

from __future__ import annotations

from ma_boot.node.checkpoints.layouts.layout import BASE, Layout, Mark, Marker

_TRACKER = (r"(?:.*/)?latest_checkpointed_iteration\.txt",)
_TRACKED = (Marker("{base}latest_checkpointed_iteration.txt", "{step}"),)
_TRACKED_BY = (Mark("step in the tracker", _TRACKER[0], r"\s*(?P<step>\d+)\s*", barrier=True),)
# Files of DeepSpeed inside other layouts.
_OF_ZERO = (r".*/[^/]*zero_pp_rank_\d+_mp_rank_\d+_optim_states\.pt",)
_RANK = r"(?:(?:rank|ckpt|device)_?(?P<rank>\d+)/)?"
_SAVED = r"(?P<epoch>\d+)_(?P<step>\d+)\.(?:ckpt|safetensors|tmp)"

# `ModelCheckpoint`: `<prefix>-<epoch>_<step in the epoch>.ckpt`, a directory per rank. A file gets its name
# by a rename from `<stem>.tmp` (mindspore/train/serialization.py), so it is complete when it has its name.
MINDSPORE = Layout(
    name="mindspore",
    files=(BASE + _RANK + rf"(?P<name>[^/]+-{_SAVED})",),
    tells=r"(?:.*/)?[^/]+-\d+_\d+\.(?:ckpt|safetensors)",
    each_rank=(BASE + rf"{_RANK}[^/]+-{_SAVED}",),
    ranks_end=True,
    own_files=True,
)

# MindFormers 1: `rank_k/<prefix>_rank_k-<epoch>_<step>.safetensors`, and the weights alone in a second tree.
# Each file gets its name by a rename. To resume, rank 0 reads the `meta.json` of all ranks
# (mindformers/tools/resume_ckpt.py), so each node has all.
MINDFORMERS = Layout(
    name="mindformers",
    files=(
        BASE + rf"checkpoint_(?:network|trainable)/rank_(?P<rank>\d+)/[^/]+-{_SAVED}",
        BASE + rf"rank_(?P<rank>\d+)/(?P<name>[^/]*_rank_(?P=rank)-{_SAVED})",
    ),
    tells=r"(?:.*/)?rank_(\d+)/[^/]*_rank_\1-\d+_\d+\.(?:ckpt|safetensors)",
    each_rank=(rf"(?:.*/)?rank_(?P<rank>\d+)/[^/]*_rank_(?P=rank)-{_SAVED}",),
    ranks_end=True,
    pointers=(r"(?:.*/)?rank_\d+/meta\.json", r"(?:.*/)?resume_record/latest_checkpointed_iteration\.txt"),
    markers=(
        Marker(
            "{base}rank_{rank}/meta.json",
            '{{"last_epoch": {epoch}, "last_step": {step}, "last_ckpt_file": {quoted}}}',
        ),
    ),
)

# MindFormers' Checkpoint 2.0: all ranks write into `iteration_00000100/`, the names have the rank and the
# number of files. Saved asynchronously, `metadata.json` comes before the weights; the tracker follows a
# barrier, or an all-reduce (mindformers/checkpoint/checkpoint.py).
MINDFORMERS2 = Layout(
    name="mindformers2",
    files=(
        BASE + r"iteration_(?P<step>\d{8,})/[^/]*-(?P<rank>\d{7})-\d{7}\.safetensors",
        BASE + r"iteration_(?P<step>\d{8,})/.+",
    ),
    tells=r"(?:.*/)?iteration_\d{8,}/(?:[^/]*-\d{7}-\d{7}\.safetensors|(?:common|metadata)\.json)",
    marks=(*_TRACKED_BY, Mark("metadata.json", r".*/metadata\.json")),
    each_rank=(r"(?:.*/)?iteration_\d{8,}/[^/]*-(?P<rank>\d{7})-\d{7}\.safetensors",),
    metadata=(r".*/common\.json", r".*/metadata\.json"),
    pointers=_TRACKER,
    markers=_TRACKED,
    bound=(),
)

# For directories whose names may also appear further up: the deepest one is the step.
_DEEPEST = r"(?P<base>(?:[^/]+/)*)"
_ITERATION = BASE + r"iter_(?P<step>\d{7,})(?:_tmp)?/"
_DISTCP = r"(?:.*/)?__(?P<rank>\d+)_\d+\.distcp"

# Megatron-LM and MindSpeed (megatron/training/checkpointing.py): data in place, `.metadata`, `metadata.json`
# by rank 0 behind a barrier, then the tracker, which an asynchronous save writes in its finalizer. A node
# without the tracker does not take part in loading.
MEGATRON = Layout(
    name="megatron",
    files=(_ITERATION + _DISTCP, _ITERATION + ".+"),
    tells=r"(?:.*/)?iter_\d{7,}/(?:.*/)?(?:\.metadata|__\d+_\d+\.distcp)",
    marks=_TRACKED_BY,
    metadata=(r".*/\.metadata", r".*/metadata\.json"),
    pointers=_TRACKER,
    markers=_TRACKED,
    bound=(),
)
# The format `torch`: rank 0 of each data-parallel group writes `mp_rank_TT_PPP/`; no name shows which rank
# that is.
MEGATRON_LEGACY = Layout(
    name="megatron-legacy",
    files=(_ITERATION + ".+",),
    tells=r"(?:.*/)?iter_\d{7,}/mp_rank_\d.*",
    marks=_TRACKED_BY,
    pointers=_TRACKER,
    markers=_TRACKED,
)

# deepspeed/runtime/engine.py: all in place; rank 0 writes `latest` after its own files, but before the
# barrier at the end. ZeRO has an optimizer file of each rank; without it only the first data-parallel ranks
# write.
DEEPSPEED = Layout(
    name="deepspeed",
    files=(
        BASE + r"(?P<name>[^/]*step[^/]*?(?P<step>\d+))/.+",
        _DEEPEST + r"(?P<name>[^/]*?(?P<step>\d+))/[^/]+_states\.pt",
    ),
    tells=r"(?!(?:.*/)?checkpoint-\d+/)(?!.*\.ckpt/)(?:.*/)?[^/]*\d+/"
    r"[^/]*(?:mp_rank_\d+_model_states|mp_rank_\d+_optim_states)\.pt",
    marks=(Mark("step in `latest`", r"(?:.*/)?latest", r".*?(?P<step>\d+)\s*"),),
    each_rank=(r".*_optim_states\.pt",),
    pointers=(r"(?:.*/)?latest",),
    markers=(Marker("{base}latest", "{name}"),),
)

# transformers' Trainer (trainer.py): each rank writes its `rng_state_k.pth` last (a single one
# `rng_state.pth`), but for rank 0's `trainer_state.json`; no barrier. Sharded by DeepSpeed, only as many
# ranks can read it.
TRANSFORMERS = Layout(
    name="transformers",
    files=(
        BASE + r"checkpoint-(?P<step>\d+)/rng_state_(?P<rank>\d+)\.pth",
        BASE + r"checkpoint-(?P<step>\d+)/.+",
    ),
    tells=r"(?:.*/)?checkpoint-\d+/"
    r"(?:trainer_state\.json|training_args\.bin|scheduler\.pt|rng_state(?:_\d+)?\.pth)",
    marks=(Mark("trainer_state.json", r".*/trainer_state\.json"),),
    each_rank=(r".*/rng_state(?:_(?P<rank>\d+))?\.pth",),
    ranks_end=True,
    metadata=(r".*/[^/]+\.index\.json", r".*/\.metadata", r".*/latest", r".*/trainer_state\.json"),
    bound=_OF_ZERO,
)
# accelerate's `save_state` with automatic names: objects of the user's may follow `random_states_k.pkl`.
ACCELERATE = Layout(
    name="accelerate",
    files=(
        BASE + r"checkpoint_(?P<step>\d+)/random_states_(?P<rank>\d+)\.pkl",
        BASE + r"checkpoint_(?P<step>\d+)/.+",
    ),
    tells=r"(?:.*/)?checkpoint_\d+/random_states_\d+\.pkl",
    each_rank=(r".*/random_states_(?P<rank>\d+)\.pkl",),
    metadata=(r".*/[^/]+\.index\.json", r".*/\.metadata"),
    bound=_OF_ZERO,
)

# Lightning: a file, which the process of rank 0 alone writes (strategies/strategy.py: `save_checkpoint`), or
# a directory with the files of DCP and `meta.pt`, which rank 0 writes behind them (strategies/fsdp.py), or
# with those of DeepSpeed and its `latest`. `last.ckpt` is a copy or a link of one of them.
_LIGHTNING = (
    BASE + r"(?P<name>[^/]*step=(?P<step>\d+)[^/]*\.ckpt)",
    BASE + r"(?P<name>[^/]*epoch=(?P<step>\d+)[^/]*\.ckpt)",
)
_LAST = (r"(?:.*/)?last(?:-v\d+)?\.ckpt(?:/.+)?",)
LIGHTNING = Layout(
    name="lightning",
    files=_LIGHTNING,
    tells=r"(?:.*/)?[^/]*(?:epoch|step)=\d+[^/]*\.ckpt",
    savers="first",
    pointers=_LAST,
    bound=(),
)
LIGHTNING_SHARDED = Layout(
    name="lightning-sharded",
    files=tuple(f"{directory}/.+" for directory in _LIGHTNING),
    tells=r"(?:.*/)?[^/]*(?:epoch|step)=\d+[^/]*\.ckpt/.+",
    marks=(Mark("meta.pt", r".*\.ckpt/(?:meta\.pt|latest)"),),
    metadata=(r".*/\.metadata", r".*/meta\.pt"),
    pointers=_LAST,
    bound=_OF_ZERO,
)

# torch.distributed.checkpoint: the coordinator writes `.metadata`, by a rename, when all ranks have reported
# success (state_dict_saver.py, filesystem.py). The directory's name is the user's: `step_100`,
# `epoch_3/iter_100`, `100`.
_NAMED = r"[^/]*(?:step|iter|epoch|ckpt|checkpoint)[^/]*?[_=.-]?(?P<step>\d+)/"
_NUMBER = r"(?P<step>\d+)/"
_OF_EPOCH = r"[^/]*epoch[^/]*?(?P<epoch>\d+)/"
_BESIDE = r"(?:.*/)?(?:\.metadata(?:\.tmp)?|[^/]*\.(?:pt|json|safetensors|yaml))"
_RESTS = ((_NAMED, (_DISTCP, ".+")), (_NUMBER, (_DISTCP, _BESIDE)))
DCP = Layout(
    name="dcp",
    files=tuple(
        _DEEPEST + epoch + directory + rest
        for directory, rests in _RESTS
        for rest in rests
        for epoch in (_OF_EPOCH, "")
    ),
    tells=r"(?!(?:.*/)?(?:pytorch_model_fsdp|optimizer)_\d+/)(?:.*/)?"
    r"(?:[^/]*(?:step|iter|epoch|ckpt|checkpoint)[^/]*?)?\d+/(?:.*/)?__\d+_\d+\.distcp",
    marks=(Mark(".metadata", r".*/\.metadata", barrier=True),),
    metadata=(r".*/\.metadata",),
    bound=(),
)

# Files by `torch.save` and the like: `ckpt_100.pt`, `epoch_3_step_100.safetensors`, `model-100.pth`, and
# files beside them of the same step: `optimizer-100.pth`.
_SUFFIX = r"\.(?:pt|pth|ckpt|safetensors|bin|npz|tar|pth\.tar)"
_COUNTED = r"(?:(?:step|iter|epoch)s?[_=.-]?|(?:ckpt|checkpoint|model|state)[_=.-])"
_BESIDE_IT = (
    r"(?:optim(?:izer)?|opt|sched(?:uler)?|scaler|ema|rng|net|encoder|decoder|gen(?:erator)?|dis(?:criminator)?"
    r"|[GD]|actor|critic|lora|adapter)[_=.-]"
)
FILE = Layout(
    name="file",
    files=(
        *(
            BASE + rf"(?P<name>[^/]*?{epoch}{_COUNTED}(?P<step>\d+){_SUFFIX})"
            for epoch in (r"epoch[_=.-]?(?P<epoch>\d+)[_.-][^/]*?", "")
        ),
        BASE + rf"(?P<name>[^/]*?{_BESIDE_IT}(?P<step>\d+){_SUFFIX})",
    ),
    bound=(),
)
# The files of an explicit step with any names: no name shows a step.
ANY = Layout(name="any", files=(), bound=())
# A file with a number at its end that may belong to the step of this number.
NUMBERED = rf"(?P<base>(?:[^/]+/)*)[^/]*?[_=.-](?P<step>\d+){_SUFFIX}"
