"""The job form's inputs and outputs when the training has ended; the platform transfers them, not ma_boot."""

from __future__ import annotations

import os
import time
from typing import Mapping, Optional, Sequence, Tuple

from ma_boot.errors import OutputLost, described
from ma_boot.modelarts import Channel, ChannelContent, read_channels
from ma_boot.node.transfers import nothing_at
from ma_boot.reporting import Journal

COUNT_SECONDS = 5.0  # for all files together; after a stop signal there is less time
HURRIED_SECONDS = 0.5


def form_channels(environ: Mapping[str, str], journal: Journal, hurry: bool) -> Tuple[ChannelContent, ...]:
    """What the inputs and outputs hold, outputs first; each gets an event. Raises nothing."""
    deadline = time.monotonic() + (HURRIED_SECONDS if hurry else COUNT_SECONDS)
    try:
        channels = sorted(read_channels(environ)[0], key=lambda one: one.kind == "inputs")
        found = tuple(channel_content(channel, deadline) for channel in channels)
    except Exception as error:  # a report is worth no job
        journal.say(f"the job form's inputs and outputs were not counted: {described(error)}")
        return ()
    for content in found:
        channel = content.channel
        journal.event(
            "channel", direction=channel.kind[:-1], name=channel.name, local_dir=channel.local_dir,
            url=channel.url, files=content.files, bytes=content.bytes, complete=content.complete,
        )  # fmt: skip
    return found


def channel_content(channel: Channel, deadline: float) -> ChannelContent:
    """Counts the files of a channel, until the monotonic `deadline` (seconds)."""
    files = size = 0
    top = channel.local_dir
    walk = [(os.path.dirname(top), [""], [os.path.basename(top)])] if os.path.isfile(top) else os.walk(top)
    for place, _, names in walk:
        for name in names:
            if time.monotonic() >= deadline:
                return ChannelContent(channel, files, size, False)
            try:
                size += os.stat(os.path.join(place, name)).st_size
            except OSError:  # removed meanwhile, or a dangling link
                continue
            files += 1
    return ChannelContent(channel, files, size, True)


def empty_outputs(found: Sequence[ChannelContent], all_expected: bool) -> Optional[OutputLost]:
    """The loss of outputs without any file, by the rule of the mapping's outputs: `all_expected`."""
    empty = [one.channel for one in found if one.channel.kind == "outputs" and one.empty]
    if not all_expected or not empty:
        return None
    return nothing_at([f"{one.local_dir} (the job form's {one.name}, for {one.url})" for one in empty])
