"""What signs requests: from the environment, or from a file that is written anew before it expires."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Mapping, Optional

from path_mapping.errors import CredentialsMissing
from path_mapping.stores.store import Credentials

KEY_VARIABLES = ("OBS_ACCESS_KEY_ID", "OBS_SECRET_ACCESS_KEY")
FIELDS = ("access", "secret", "securitytoken")


def credentials_of(environ: Mapping[str, str]) -> Optional[Credentials]:
    """By OBS_ACCESS_KEY_ID, OBS_SECRET_ACCESS_KEY and OBS_SECURITY_TOKEN; None where the first two lack."""
    access_key, secret_key = (environ.get(name) for name in KEY_VARIABLES)
    if not (access_key and secret_key):
        return None
    return Credentials(access_key, secret_key, environ.get("OBS_SECURITY_TOKEN"))


def read_credentials(file: Path) -> Credentials:
    """By a file as IAM answers POST /v3.0/OS-CREDENTIAL/securitytokens (its API reference).

    That is `{"credential": {"access": ..., "secret": ..., "securitytoken": ...}}`, or the inner object alone.
    Raises `CredentialsMissing`, without the file's content.
    """
    expected = 'expected {"credential": {"access": ..., "secret": ..., "securitytoken": ...}}'
    try:
        found: Any = json.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise CredentialsMissing(f"OBS_CREDENTIALS_FILE: {file}: {error.strerror}") from error
    except ValueError as error:
        raise CredentialsMissing(f"OBS_CREDENTIALS_FILE: {file} is no JSON; {expected}") from error
    inner = found.get("credential", found) if isinstance(found, dict) else None
    values = [inner.get(name) for name in FIELDS] if isinstance(inner, dict) else [None] * len(FIELDS)
    wrong = [name for name, value in zip(FIELDS, values) if not (isinstance(value, str) and value)]
    if wrong:
        raise CredentialsMissing(f"OBS_CREDENTIALS_FILE: {file} has no {', '.join(wrong)}; {expected}")
    return Credentials(*map(str, values))
