"""Opens the store that the environment names: OBS, or a directory in its place."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Callable, TypeVar
from urllib.parse import SplitResult

from path_mapping.defaults import STALL_SECONDS
from path_mapping.errors import CredentialsMissing
from path_mapping.stores.access import (
    KEY_VARIABLES,
    Access,
    Credentials,
    address_of,
    credentials_of,
    endpoint_of,
    patience_of,
    proxy_for,
    read_credentials,
)
from path_mapping.stores.signer import log_warning
from path_mapping.stores.store import Store

Value = TypeVar("Value")


def open_store(
    environ: Mapping[str, str],
    obs_root: Path | None,
    renew: Callable[[], Credentials] | None = None,
    stall_timeout: float = STALL_SECONDS,
    announce: Callable[[str], None] | None = None,
    read_file: Callable[[Path], Credentials] = read_credentials,
) -> Store:
    """Opens OBS with the environment's credentials, or the directory `obs_root` in its place.

    The variables: OBS_ENDPOINT (else the platform's S3_ENDPOINT and S3_USE_HTTPS); OBS_ACCESS_KEY_ID,
    OBS_SECRET_ACCESS_KEY and, for temporary credentials, OBS_SECURITY_TOKEN, or OBS_CREDENTIALS_FILE, which
    is read again after they have expired, for OBS_CREDENTIALS_WAIT seconds; SSL_CERT_FILE for a CA of your
    own; https_proxy, http_proxy and no_proxy. S3_VERIFY_SSL=0 is ignored: the platform sets it in every
    container, and without verification the credentials could be intercepted.

    `renew` returns new credentials after the current ones have expired, in place of that file. A request
    without progress for `stall_timeout` seconds fails. `announce` is called with a message when a wait for
    new credentials begins; without it, a warning is logged. `read_file` reads OBS_CREDENTIALS_FILE each time.
    Raises `CredentialsMissing` with all problems: variables that are not set, and unusable values.
    """
    if obs_root is not None:
        from path_mapping.stores.directory_store import DirectoryStore

        return DirectoryStore(obs_root)
    file = environ.get("OBS_CREDENTIALS_FILE")
    renewed = renew is None and bool(file)
    problems = [*_missing(environ, file)]
    keys = _read(problems, lambda: read_file(Path(file)) if file else credentials_of(environ))
    endpoint = endpoint_of(environ) or ""
    proxy = _read(problems, lambda: proxy_for(_address(endpoint, environ), environ) if endpoint else None)
    patience = _read(problems, lambda: patience_of(environ)) if renewed else 0.0
    if problems or keys is None or patience is None:
        raise CredentialsMissing(*problems)
    access = Access(endpoint, keys, environ.get("SSL_CERT_FILE"), stall_timeout, proxy=proxy)
    if renewed and file:
        renew = partial(read_file, Path(file))
    return open_store_of(access, renew, patience, announce or log_warning)


def _missing(environ: Mapping[str, str], file: str | None) -> Iterator[str]:
    """Yields the message about variables that are not set, if there are any."""
    wanted = {"OBS_ENDPOINT (or S3_ENDPOINT)": endpoint_of(environ)}
    if not file:
        wanted.update({name: environ.get(name) for name in KEY_VARIABLES})
    missing = ", ".join(name for name, value in wanted.items() if not value)
    if missing:
        yield f"the path mapping needs OBS, but the environment does not have {missing}"


def _address(endpoint: str, environ: Mapping[str, str]) -> SplitResult:
    return address_of(endpoint, "OBS_ENDPOINT" if environ.get("OBS_ENDPOINT") else "S3_ENDPOINT")


def _read(problems: list[str], read: Callable[[], Value]) -> Value | None:
    """Returns the result of `read`; with an error None, whose problems are added to the others."""
    try:
        return read()
    except CredentialsMissing as error:
        problems += error.problems
        return None


def open_store_of(
    access: Access,
    renew: Callable[[], Credentials] | None,
    patience: float,
    announce: Callable[[str], None],
) -> Store:
    """Opens OBS by `access`; for the other arguments see `Signer`."""
    from path_mapping.stores.obs_store import ObsStore  # slow to import

    return ObsStore(access, renew, patience, announce)
