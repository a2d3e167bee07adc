"""Which store a job has: OBS, or a directory that stands for it."""

from __future__ import annotations

from pathlib import Path
from typing import Mapping, Optional

from path_mapping.directory_store import DirectoryStore
from path_mapping.errors import CredentialsMissing
from path_mapping.store import Store


def open_store(environ: Mapping[str, str], obs_root: Optional[Path]) -> Store:
    """OBS by the environment's credentials, or a directory that stands for it.

    The variables: OBS_ENDPOINT (else the platform's S3_ENDPOINT), OBS_ACCESS_KEY_ID, OBS_SECRET_ACCESS_KEY
    and, for temporary credentials, OBS_SECURITY_TOKEN. Raises `CredentialsMissing` with all missing ones.
    """
    if obs_root is not None:
        return DirectoryStore(obs_root)
    endpoint = environ.get("OBS_ENDPOINT") or environ.get("S3_ENDPOINT")
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
    return ObsStore(endpoint, access_key, secret_key, environ.get("OBS_SECURITY_TOKEN"), bundle)
