"""Which store a job has: OBS, or a directory that stands for it."""

from __future__ import annotations

from pathlib import Path
from typing import Callable, Mapping, Optional

from path_mapping.directory_store import DirectoryStore
from path_mapping.endpoint import address_of, proxy_for
from path_mapping.errors import CredentialsMissing
from path_mapping.store import Credentials, Store


def open_store(
    environ: Mapping[str, str],
    obs_root: Optional[Path],
    renew: Optional[Callable[[], Credentials]] = None,
) -> Store:
    """OBS by the environment's credentials, or a directory that stands for it.

    The variables: OBS_ENDPOINT (else the platform's S3_ENDPOINT, which S3_USE_HTTPS=0 makes a plain one where
    it has no scheme), OBS_ACCESS_KEY_ID, OBS_SECRET_ACCESS_KEY and, for temporary credentials,
    OBS_SECURITY_TOKEN; SSL_CERT_FILE for an authority of your own; https_proxy, http_proxy and no_proxy.
    S3_VERIFY_SSL=0 counts for nothing: the platform sets it in every container, and who listens on the way
    would get the credentials. `renew` is asked for new credentials when those here have expired. Raises
    `CredentialsMissing` with all missing variables.
    """
    if obs_root is not None:
        return DirectoryStore(obs_root)
    endpoint = environ.get("OBS_ENDPOINT") or _platform_endpoint(environ)
    access_key = environ.get("OBS_ACCESS_KEY_ID")
    secret_key = environ.get("OBS_SECRET_ACCESS_KEY")
    if not (endpoint and access_key and secret_key):
        wanted = {
            "OBS_ENDPOINT (or S3_ENDPOINT)": endpoint,
            "OBS_ACCESS_KEY_ID": access_key,
            "OBS_SECRET_ACCESS_KEY": secret_key,
        }
        missing = ", ".join(name for name, value in wanted.items() if not value)
        raise CredentialsMissing(f"the path mapping needs OBS, but the environment does not have {missing}")
    from path_mapping.obs_store import ObsStore  # the SDK is slow to import, and a directory does not need it

    bundle = environ.get("SSL_CERT_FILE")
    proxy = proxy_for(address_of(endpoint), environ)
    token = environ.get("OBS_SECURITY_TOKEN")
    return ObsStore(endpoint, access_key, secret_key, token, bundle, renew=renew, proxy=proxy)


def _platform_endpoint(environ: Mapping[str, str]) -> Optional[str]:
    endpoint = environ.get("S3_ENDPOINT")
    if not endpoint or "://" in endpoint:
        return endpoint
    return f"{'http' if environ.get('S3_USE_HTTPS') == '0' else 'https'}://{endpoint}"
