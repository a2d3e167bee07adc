"""Errors of transfers between local paths and OBS. Pure.

PathMappingError
├── MappingInvalid        the mapping file has mistakes
├── CredentialsMissing    environment variables are missing or wrong
├── MissingInputs         required inputs do not exist in OBS
├── NothingSelected       the patterns of required inputs select none of their objects
├── UnsafeTarget          keys that would leave their target or cannot be a file, or routes that overlap
├── NoSpace               a disk is too small for the inputs
├── TransferFailed        files failed, after all others were tried
├── Cancelled             the caller cancelled the transfer
├── WorkersLost           all worker processes died: OOM-killed, or killed by a signal
│   └── NoWorkers         no thread or process can be started for a transfer
└── StoreError            the store reported an error
    ├── NotFound          404: no such bucket or object
    ├── Replaced          412: the object has changed since it was listed
    ├── Refused           401, 403: wrong credentials, or no permission
    │   ├── Forbidden     403: the credentials are valid, but do not permit this
    │   └── Expired       403: credentials that have expired; new ones may help
    ├── Rejected          400, 405, 409, 416, ...: not possible as it is, or not to be sent
    └── Unreachable       network, timeout, 408, 5xx, a corrupt response: a retry may help
        ├── SlowDown      429, 503: too many requests; a later retry may help
        ├── Corrupted     content changed on the way; a few retries may help
        └── TargetRemoved another process removed an unfinished file, or its directory; a retry may help
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Callable, NamedTuple

# Lines of a message; more are only counted.
MOST_LISTED = 20


def printable(text: str) -> str:
    """Returns a key or name on one line, without characters that control a terminal."""
    if text.isprintable():
        return text
    clean = "".join(letter if letter.isprintable() else repr(letter)[1:-1] for letter in text)
    return clean.encode("utf-8", "backslashreplace").decode("utf-8")


class PathMappingError(Exception):
    """Base class of these errors. The message explains the cause and the remedy; no traceback is needed."""


class MappingInvalid(PathMappingError):
    """The mapping is invalid; `problems` has every mistake, each with its place."""

    def __init__(self, source: str, problems: Sequence[str]) -> None:
        super().__init__(_listed(f"{source} is not a valid path mapping:", problems))
        self.source = source
        self.problems = tuple(problems)


class CredentialsMissing(PathMappingError):
    """Environment variables that are needed to reach OBS are missing or wrong; `problems` has all of them."""

    def __init__(self, *problems: str) -> None:
        single = len(problems) == 1
        super().__init__(
            problems[0] if single else _listed("settings for OBS that cannot be used:", problems)
        )
        self.problems = problems

    def __reduce__(self) -> tuple[Any, ...]:
        return CredentialsMissing, self.problems


class MissingInputs(PathMappingError):
    """Required inputs do not exist in OBS; the message has `places` in place of `urls` if there are any."""

    def __init__(self, urls: Sequence[str], places: Sequence[str] = ()) -> None:
        super().__init__(_listed("not in OBS, neither an object nor anything below it:", places or urls))
        self.urls = tuple(urls)

    def located(self, place: Callable[[str], str]) -> MissingInputs:
        """Returns this error with the local place of each URL, empty if it is not on this machine."""
        places = [(url, place(url)) for url in self.urls]
        return MissingInputs(self.urls, [f"{url} (looked for {at})" if at else url for url, at in places])


class NothingSelected(PathMappingError):
    """The patterns of required inputs select none of their objects; `problems` has the patterns of each."""

    def __init__(self, problems: Sequence[str]) -> None:
        super().__init__(_listed("the patterns of these inputs select none of their objects:", problems))
        self.problems = tuple(problems)


class UnsafeTarget(PathMappingError):
    """Objects must not, or cannot, become files below their target, or routes overlap."""

    def __init__(self, problems: Sequence[str]) -> None:
        super().__init__(_listed("objects that cannot be stored below their target:", problems))
        self.problems = tuple(problems)

    def __reduce__(self) -> tuple[Any, ...]:
        return UnsafeTarget, (self.problems,)


class NoSpace(PathMappingError):
    """Disks have too little free space, or too few free inodes, for the inputs."""

    def __init__(self, problems: Sequence[str]) -> None:
        super().__init__(_listed("not enough space; nothing was downloaded:", problems))
        self.problems = tuple(problems)


class Cancelled(PathMappingError):
    """The caller cancelled the transfer."""

    def __init__(self, message: str = "the transfer was cancelled") -> None:
        super().__init__(message)


class WorkersLost(PathMappingError):
    """All worker processes died. Complete files stay, and a later run continues from there."""


class NoWorkers(WorkersLost):
    """No thread or process can be started for a transfer: a limit of this user or container is reached."""


class StoreError(PathMappingError):
    """The store refused or failed. The message names the operation and the object, never a credential.

    It is printable, although it quotes the key and parts of the response.
    """

    def __init__(self, message: str = "") -> None:
        super().__init__(printable(message))


class NotFound(StoreError):
    """The bucket or object does not exist."""


class Refused(StoreError):
    """The credentials are wrong, or do not permit this."""


class Forbidden(Refused):
    """The credentials are valid, but a policy does not permit this."""


class Expired(Refused):
    """The credentials have expired; the same request may succeed with new ones.

    `wait` waits for new credentials and returns whether there are any; None if no source renews them. Its
    argument sleeps for some seconds and returns True if the wait should end, like `Event.wait`.
    """

    wait: Callable[[Callable[[float], bool]], bool] | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        # Without `wait`, which works in the process that has the source of the credentials only.
        return type(self), self.args


class Rejected(StoreError):
    """The request is invalid: neither other credentials nor a retry help."""


class Replaced(StoreError):
    """The object has changed since it was listed."""


class Unreachable(StoreError):
    """No response, or a corrupt one; a retry may help."""


class SlowDown(Unreachable):
    """Too many requests; `after` is the number of seconds that the store asked to wait, if it did."""

    def __init__(self, message: str, after: float | None = None) -> None:
        super().__init__(message)
        self.after = after


class Corrupted(Unreachable):
    """The content that arrived is not the one that was sent.

    `stored` is the ETag of the wrong object that this made in OBS, empty if it made none.
    """

    stored: str = ""


class TargetRemoved(Unreachable):
    """Another process removed the unfinished file of a download; a retry creates it again."""


class Failure(NamedTuple):
    """A file that failed, with its error; `source` or `target` is empty if there is none."""

    source: str
    target: str
    error: Exception

    def __str__(self) -> str:
        return f"{printable(' -> '.join(filter(None, (self.source, self.target))))}: {self.error}"


class TransferFailed(PathMappingError):
    """Some files failed; `done` is the number of those that did not."""

    def __init__(self, failures: Sequence[Failure], done: int) -> None:
        lines = [str(failure) for failure in failures]
        super().__init__(_listed(f"{len(failures)} of {len(failures) + done} files failed:", lines))
        self.failures: tuple[Failure, ...] = tuple(failures)


def _listed(headline: str, lines: Sequence[str]) -> str:
    shown = [f"  - {line}" for line in lines[:MOST_LISTED]]
    more = [f"  - and {len(lines) - MOST_LISTED} more"] if len(lines) > MOST_LISTED else []
    return "\n".join([headline, *shown, *more])
