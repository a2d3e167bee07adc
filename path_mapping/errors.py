"""What can go wrong between local paths and OBS.

PathMappingError
├── MappingInvalid        the mapping's file: every mistake in it
├── CredentialsMissing    the environment: every variable that is missing
├── MissingInputs         inputs that do not exist in OBS, all of them
├── UnsafeTarget          keys that would leave their target or cannot be a file, all of them
├── NoSpace               a disk that is too small for what is to come
├── TransferFailed        files that could not be moved, after all others were tried
├── Cancelled             the caller cancelled the transfer
├── WorkersLost           all processes that moved files died: out of memory, or killed
└── StoreError            what a store says
    ├── NotFound          404: no such bucket or object
    ├── Replaced          412: the object was replaced after it was listed
    ├── Refused           401, 403: the credentials, or what they allow
    │   └── Expired       403: credentials that were good once; new ones may help
    └── Unreachable       network, timeout, 408, 5xx, a damaged answer: worth another try
        └── SlowDown      429, 503: too many requests; worth another try, later and slower
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Optional, Sequence, Tuple

MOST_LISTED = 20


class PathMappingError(Exception):
    """Root of all errors here; the message explains everything, no traceback is needed."""


class MappingInvalid(PathMappingError):
    """The mapping cannot be read; `problems` has every mistake, each with its place."""

    def __init__(self, source: str, problems: Sequence[str]) -> None:
        super().__init__(_listed(f"{source} is not a valid path mapping:", problems))
        self.source = source
        self.problems = tuple(problems)


class CredentialsMissing(PathMappingError):
    """Variables that are needed to reach OBS are not set."""


class MissingInputs(PathMappingError):
    """Inputs of the mapping that do not exist in OBS."""

    def __init__(self, urls: Sequence[str]) -> None:
        super().__init__(_listed("not in OBS, neither an object nor anything below it:", urls))
        self.urls = tuple(urls)


class UnsafeTarget(PathMappingError):
    """Objects whose keys must not, or cannot, become files below their target."""

    def __init__(self, problems: Sequence[str]) -> None:
        super().__init__(_listed("objects that cannot be stored below their target:", problems))
        self.problems = tuple(problems)

    def __reduce__(self) -> Tuple[Any, ...]:
        return UnsafeTarget, (self.problems,)


class NoSpace(PathMappingError):
    """Disks that have too little space, or too few inodes, for what is to be downloaded."""

    def __init__(self, problems: Sequence[str]) -> None:
        super().__init__(_listed("not enough space; nothing was downloaded:", problems))
        self.problems = tuple(problems)


class Cancelled(PathMappingError):
    """The caller cancelled the transfer."""

    def __init__(self, message: str = "the transfer was cancelled") -> None:
        super().__init__(message)


class WorkersLost(PathMappingError):
    """The processes that moved the files are gone; what is whole stays, a later run goes on from there."""


class StoreError(PathMappingError):
    """A store refused or failed; the message names the operation and the object, never a credential."""


class NotFound(StoreError):
    """No such bucket or object."""


class Refused(StoreError):
    """The credentials are wrong, or do not allow this."""


class Expired(Refused):
    """The credentials were good once; the same request may pass with new ones."""


class Replaced(StoreError):
    """The object changed after it was listed."""


class Unreachable(StoreError):
    """The store did not answer, or not well; another try may help."""


class SlowDown(Unreachable):
    """The store has too much to do; `after` is the number of seconds that it asked to be left alone."""

    def __init__(self, message: str, after: Optional[float] = None) -> None:
        super().__init__(message)
        self.after = after


@dataclass(frozen=True)
class Failure:
    """One file that could not be moved, and why; `target` is empty where it has none."""

    source: str
    target: str
    error: Exception

    def __str__(self) -> str:
        way = f"{self.source} -> {self.target}" if self.target else self.source
        return f"{way}: {self.error}"


class TransferFailed(PathMappingError):
    """Some files could not be moved; all others were."""

    def __init__(self, failures: Sequence[Failure], done: int) -> None:
        lines = [str(failure) for failure in failures]
        super().__init__(_listed(f"{len(failures)} files failed, {done} are done:", lines))
        self.failures: Tuple[Failure, ...] = tuple(failures)


def _listed(headline: str, lines: Sequence[str]) -> str:
    shown = [f"  - {line}" for line in lines[:MOST_LISTED]]
    more = [f"  - and {len(lines) - MOST_LISTED} more"] if len(lines) > MOST_LISTED else []
    return "\n".join([headline, *shown, *more])
