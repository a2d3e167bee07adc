"""Opens the store that the environment names: OBS, or a directory in its place."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Callable

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
    Raises `CredentialsMissing`, with all names, if variables are not set, or if a value is unusable.
    """
    if obs_root is not None:
        from path_mapping.stores.directory_store import DirectoryStore

        return DirectoryStore(obs_root)
    endpoint = endpoint_of(environ)
    file = environ.get("OBS_CREDENTIALS_FILE")
    keys = read_file(Path(file)) if file else credentials_of(environ)
    if not endpoint or keys is None:
        wanted = {"OBS_ENDPOINT (or S3_ENDPOINT)": endpoint}
        if keys is None:
            wanted.update({name: environ.get(name) for name in KEY_VARIABLES})
        missing = ", ".join(name for name, value in wanted.items() if not value)
        raise CredentialsMissing(f"the path mapping needs OBS, but the environment does not have {missing}")
    proxy = proxy_for(address_of(endpoint), environ)
    access = Access(endpoint, keys, environ.get("SSL_CERT_FILE"), stall_timeout, proxy=proxy)
    patience = 0.0
    if renew is None and file:
        renew, patience = partial(read_file, Path(file)), patience_of(environ)
    return open_store_of(access, renew, patience, announce or log_warning)


def open_store_of(
    access: Access,
    renew: Callable[[], Credentials] | None,
    patience: float,
    announce: Callable[[str], None],
) -> Store:
    """Opens OBS by `access`; for the other arguments see `Signer`."""
    from path_mapping.stores.obs_store import ObsStore  # slow to import

    return ObsStore(access, renew, patience, announce)
