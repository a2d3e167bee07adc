"""Which store a job has: OBS, or a directory that stands for it."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Callable, Mapping, Optional

from path_mapping.errors import CredentialsMissing
from path_mapping.stores.access import address_of, endpoint_of, proxy_for
from path_mapping.stores.credentials import KEY_VARIABLES, credentials_of, read_credentials
from path_mapping.stores.store import STALL_SECONDS, Credentials, Store


def open_store(
    environ: Mapping[str, str],
    obs_root: Optional[Path],
    renew: Optional[Callable[[], Credentials]] = None,
    stall_timeout: float = STALL_SECONDS,
) -> Store:
    """OBS by the environment's credentials, or a directory that stands for it.

    The variables: OBS_ENDPOINT (else the platform's S3_ENDPOINT, which S3_USE_HTTPS=0 makes a plain one where
    it has no scheme); OBS_ACCESS_KEY_ID, OBS_SECRET_ACCESS_KEY and, for temporary credentials,
    OBS_SECURITY_TOKEN, or OBS_CREDENTIALS_FILE, which is read again when they have expired; SSL_CERT_FILE for
    an authority of your own; https_proxy, http_proxy and no_proxy. S3_VERIFY_SSL=0 counts for nothing: the
    platform sets it in every container, and who listens on the way would get the credentials.

    `renew` is asked for credentials when those at hand have expired, instead of that file. A request of which
    nothing moves for `stall_timeout` seconds has failed. Raises `CredentialsMissing` with all that is
    missing.
    """
    if obs_root is not None:
        from path_mapping.stores.directory_store import DirectoryStore

        return DirectoryStore(obs_root)
    endpoint = endpoint_of(environ)
    file = environ.get("OBS_CREDENTIALS_FILE")
    keys = read_credentials(Path(file)) if file else credentials_of(environ)
    if not endpoint or keys is None:
        wanted = {"OBS_ENDPOINT (or S3_ENDPOINT)": endpoint}
        if keys is None:
            wanted.update({name: environ.get(name) for name in KEY_VARIABLES})
        missing = ", ".join(name for name, value in wanted.items() if not value)
        raise CredentialsMissing(f"the path mapping needs OBS, but the environment does not have {missing}")
    from path_mapping.stores.obs_store import (
        ObsStore,  # the SDK is slow to import, and a directory does not need it
    )

    if renew is None and file:
        renew = partial(read_credentials, Path(file))
    return ObsStore(
        endpoint,
        keys.access_key,
        keys.secret_key,
        keys.token,
        environ.get("SSL_CERT_FILE"),
        timeout=stall_timeout,
        renew=renew,
        proxy=proxy_for(address_of(endpoint), environ),
    )
