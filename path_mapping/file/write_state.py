"""State of a file that replaces an object: effects of its events, and the decision to upload. Pure.

Phases, and the events that lead from one to the next:

    UNBOUND --bind--> OPEN --enter--> IN_BLOCK --exception in the block--> FAILED
                        |                |                                   ^
                        | drop           +---------------drop----------------+
                        v
                     DROPPED

    any phase but UNBOUND --drop in a forked child--> LOST
    any phase --close--> UNBOUND

The content is uploaded by `flush` in OPEN and IN_BLOCK, and by `close` in OPEN, IN_BLOCK and DROPPED.
"""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

from path_mapping.localfs.source_file import FileState


class Phase(Enum):
    """Phase of a file between its creation and its end."""

    UNBOUND = "no object to replace: a local file, or a file that is closed"
    OPEN = "open, outside of a `with` block"
    IN_BLOCK = "open, in a `with` block"
    DROPPED = "garbage, or open at the end of the program: uploaded without an error that nothing could catch"
    FAILED = "its `with` block raised or did not end: the object stays as it was"
    LOST = "dropped in a forked child: the file is its parent's, and writes are discarded"


class WriteState(NamedTuple):
    """Phase of a file, and the facts that decide about its upload.

    `failure` is the reason of FAILED. `is_flushed` is false while a buffer above the file has bytes that
    could not be written to it. `is_held` is true while the buffers flush for other reasons than an upload.
    `uploaded` is the state on the disk at the last upload, None without one or after a write since.
    """

    phase: Phase = Phase.UNBOUND
    failure: str = ""
    is_flushed: bool = True
    is_held: bool = False
    uploaded: FileState | None = None

    def bind(self) -> WriteState:
        """Begins to replace an object."""
        return self._replace(phase=Phase.OPEN)

    def enter_block(self) -> WriteState:
        """Enters a `with` block."""
        return self._replace(phase=Phase.IN_BLOCK) if self.phase is Phase.OPEN else self

    def fail_block(self, exception: str) -> WriteState:
        """Leaves the `with` block by an exception of this name."""
        if self.phase is not Phase.IN_BLOCK:
            return self
        return self._replace(phase=Phase.FAILED, failure=f"its `with` block ended by {exception}")

    def drop(self, in_forked_child: bool) -> WriteState:
        """Becomes garbage, or reaches the end of the program."""
        if self.phase is Phase.UNBOUND:
            return self
        if in_forked_child:
            return self._replace(phase=Phase.LOST)
        if self.phase is Phase.IN_BLOCK:
            return self._replace(phase=Phase.FAILED, failure="its `with` block had not ended")
        return self._replace(phase=Phase.DROPPED) if self.phase is Phase.OPEN else self

    def close(self) -> WriteState:
        """Ends: nothing is uploaded any more."""
        return self._replace(phase=Phase.UNBOUND)

    def differs_from(self, on_disk: FileState) -> bool:
        """Tells whether the content on the disk is not yet in the object."""
        return on_disk != self.uploaded

    @property
    def has_object(self) -> bool:
        """True if the content may be uploaded by an event to come."""
        return self.phase not in (Phase.UNBOUND, Phase.LOST)

    @property
    def uploads_on_flush(self) -> bool:
        """True if `flush` uploads the content."""
        return self.phase in (Phase.OPEN, Phase.IN_BLOCK) and not self.is_held

    @property
    def refusal(self) -> str:
        """The reason why `close` does not upload the content, empty if it does."""
        if not self.is_flushed:
            return self.failure or "not all of it could be written to the temporary file"
        return self.failure
