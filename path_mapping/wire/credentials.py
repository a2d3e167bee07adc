"""What a process needs to make requests to OBS, as values."""

from __future__ import annotations

from typing import Callable, NamedTuple, Optional

STALL_SECONDS = 60.0  # without progress, after which a request has failed
PART = 16 << 20  # bytes
MULTIPART_FROM = 64 << 20  # bytes, from which on a file is uploaded in parts

Pause = Callable[[float], bool]  # sleeps for some seconds; True if the wait should end, like `Event.wait`


class Credentials(NamedTuple):
    """What requests are signed with; never shown."""

    access_key: str
    secret_key: str
    token: Optional[str] = None

    def __repr__(self) -> str:
        return "Credentials()"


class Access(NamedTuple):
    """Everything a process needs to make requests: the service and the credentials.

    `bundle` is a file of CA certificates that replaces certifi's; `timeout` the seconds without progress
    after which a request fails; `multipart_from` and `part` are in bytes.
    """

    endpoint: str
    credentials: Credentials
    bundle: Optional[str] = None
    timeout: float = STALL_SECONDS
    multipart_from: int = MULTIPART_FROM
    part: int = PART
