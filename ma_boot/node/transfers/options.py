"""Options for inputs and outputs."""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

from ma_boot.node.option import DIR, FILE, SECONDS, SECONDS_ABOVE_0, option, option_group
from path_mapping.defaults import STALL_SECONDS

_obs = partial(option, topic="obs")


@option_group
class TransferOptions(NamedTuple):
    """Options for inputs and outputs; times are in seconds."""

    path_mapping: str | None = _obs(None, "Inputs and outputs in OBS.", kind=FILE, common=True)
    obs_root: str | None = _obs(None, "Use DIR/BUCKET/KEY instead of obs://BUCKET/KEY.", kind=DIR)
    upload_timeout: float = _obs(600.0, "Timeout of the upload after the training.", kind=SECONDS)
    download_timeout: float = _obs(
        600.0,
        "Retry a failing request of the inputs for this long; 0: do not retry.",
        kind=SECONDS,
        variable_only=True,
    )
    stall_timeout: float = _obs(
        STALL_SECONDS,
        "Retry a request to OBS that has transferred nothing for this long.",
        kind=SECONDS_ABOVE_0,
        variable_only=True,
    )
    take_over: bool = _obs(
        False, "Resume from the checkpoints of another job that ended without a word, e.g. killed."
    )
