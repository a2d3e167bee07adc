"""Layouts of PyTorch and of what is built on it. Pure."""

from __future__ import annotations

from path_mapping.layouts.layout import BASE, Layout, Marker, Need

_TRACKER = (r"(?:.*/)?latest_checkpointed_iteration\.txt",)
_TRACKED = (Marker("{base}latest_checkpointed_iteration.txt", "{step}"),)
_DEEPEST = r"(?P<base>(?:[^/]+/)*)"  # where a name that ends in a number may stand further up, too
_ITERATION = BASE + r"iter_(?P<step>\d{7,})(?:_tmp)?/"
_DISTCP = r"(?:.*/)?__(?P<rank>\d+)_\d+\.distcp"
_UNFINISHED = r".*(?:\.tmp|_tmp/.*)"

# Megatron-LM and MindSpeed (megatron/training/checkpointing.py): data in place, `.metadata`, `metadata.json`
# by rank 0 behind a barrier, then the tracker. A node without the tracker does not take part in loading.
MEGATRON = Layout(
    name="megatron",
    files=(_ITERATION + _DISTCP, _ITERATION + ".+"),
    tells=r"(?:.*/)?iter_\d{7,}/(?:.*/)?(?:\.metadata|__\d+_\d+\.distcp)",
    needs=(Need(".metadata", r".*/\.metadata"), Need("metadata.json", r".*/metadata\.json")),
    by_rank=True,
    last=r".*/metadata\.json",
    unfinished=_UNFINISHED,
    metadata=(r".*/\.metadata", r".*/metadata\.json"),
    pointers=_TRACKER,
    markers=_TRACKED,
    bound=(),
)
# The format `torch`: rank 0 of each data-parallel group writes `mp_rank_TT_PPP/`; nothing tells who that is.
MEGATRON_LEGACY = Layout(
    name="megatron-legacy",
    files=(_ITERATION + ".+",),
    tells=r"(?:.*/)?iter_\d{7,}/mp_rank_\d.*",
    needs=(Need("mp_rank_00*/model_optim_rng.pt", r".*/mp_rank_00[^/]*/model_optim_rng\.pt"),),
    unfinished=_UNFINISHED,
    pointers=_TRACKER,
    markers=_TRACKED,
)

# deepspeed/runtime/engine.py: all in place; `latest` is written before the others are known to be done.
DEEPSPEED = Layout(
    name="deepspeed",
    files=(
        BASE + r"(?P<name>[^/]*step[^/]*?(?P<step>\d+))/.+",
        _DEEPEST + r"(?P<name>[^/]*?(?P<step>\d+))/[^/]+_states\.pt",
    ),
    tells=r"(?!(?:.*/)?checkpoint-\d+/)(?!.*\.ckpt/)(?:.*/)?[^/]*\d+/"
    r"[^/]*(?:mp_rank_\d+_model_states|mp_rank_\d+_optim_states)\.pt",
    needs=(Need("model states of mp_rank_00", r".*mp_rank_00_model_states\.pt"),),
    pointers=(r"(?:.*/)?latest",),
    markers=(Marker("{base}latest", "{name}"),),
)

# transformers' Trainer: `checkpoint-100/`; rank 0 writes `trainer_state.json` last, each rank its
# `rng_state_k.pth` (`rng_state.pth` alone). Sharded by DeepSpeed, only as many ranks can read it.
TRANSFORMERS = Layout(
    name="transformers",
    files=(
        BASE + r"checkpoint-(?P<step>\d+)/rng_state_(?P<rank>\d+)\.pth",
        BASE + r"checkpoint-(?P<step>\d+)/.+",
    ),
    tells=r"(?:.*/)?checkpoint-\d+/"
    r"(?:trainer_state\.json|training_args\.bin|scheduler\.pt|rng_state(?:_\d+)?\.pth)",
    needs=(Need("trainer_state.json", r".*/trainer_state\.json"),),
    by_rank=True,
    metadata=(r".*/[^/]+\.index\.json", r".*/\.metadata", r".*/latest", r".*/trainer_state\.json"),
    bound=(r".*/[^/]*zero_pp_rank_\d+_mp_rank_\d+_optim_states\.pt",),
)
# accelerate's `save_state` with automatic names.
ACCELERATE = Layout(
    name="accelerate",
    files=(
        BASE + r"checkpoint_(?P<step>\d+)/random_states_(?P<rank>\d+)\.pkl",
        BASE + r"checkpoint_(?P<step>\d+)/.+",
    ),
    tells=r"(?:.*/)?checkpoint_\d+/random_states_\d+\.pkl",
    by_rank=True,
    metadata=(r".*/[^/]+\.index\.json", r".*/\.metadata"),
    bound=(r".*/[^/]*zero_pp_rank_\d+_mp_rank_\d+_optim_states\.pt",),
)

# Lightning: a file, or a directory with the files of DCP and `meta.pt`, which rank 0 writes last.
# `last.ckpt` is a copy or a link of one of them.
LIGHTNING = Layout(
    name="lightning",
    files=(
        BASE + r"(?P<name>[^/]*step=(?P<step>\d+)[^/]*\.ckpt)/" + _DISTCP,
        BASE + r"(?P<name>[^/]*step=(?P<step>\d+)[^/]*\.ckpt)(?:/.+)?",
        BASE + r"(?P<name>[^/]*epoch=(?P<step>\d+)[^/]*\.ckpt)(?:/.+)?",
    ),
    tells=r"(?:.*/)?[^/]*(?:epoch|step)=\d+[^/]*\.ckpt(?:/.+)?",
    by_rank=True,
    last=r".*/meta\.pt",
    metadata=(r".*/\.metadata", r".*/meta\.pt"),
    pointers=(r"(?:.*/)?last(?:-v\d+)?\.ckpt(?:/.+)?",),
    bound=(r".*/[^/]*zero_pp_rank_\d+_mp_rank_\d+_optim_states\.pt",),
)

# torch.distributed.checkpoint: the coordinator writes `.metadata` when all ranks have reported success. The
# directory's name is the user's: `step_100`, `epoch_3/iter_100`, `100`.
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
    needs=(Need(".metadata", r".*/\.metadata"),),
    by_rank=True,
    last=r".*/\.metadata",
    metadata=(r".*/\.metadata",),
    bound=(),
)

# One file per step, by `torch.save` and the like: `ckpt_100.pt`, `epoch_3_step_100.safetensors`,
# `model-100.pth`.
_SUFFIX = r"\.(?:pt|pth|ckpt|safetensors|bin|npz|tar|pth\.tar)"
_COUNTED = r"(?:(?:step|iter|epoch)s?[_=.-]?|(?:ckpt|checkpoint|model|state)[_=.-])"
FILE = Layout(
    name="file",
    files=tuple(
        BASE + rf"(?P<name>[^/]*?{epoch}{_COUNTED}(?P<step>\d+){_SUFFIX})"
        for epoch in (r"epoch[_=.-]?(?P<epoch>\d+)[_.-][^/]*?", "")
    ),
    tells=rf"(?:.*/)?[^/]*?{_COUNTED}\d+{_SUFFIX}",
    bound=(),
)
