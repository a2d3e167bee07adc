"""How to reach OBS, by the environment: endpoint, credentials, CA bundle and proxy."""

from __future__ import annotations

import ipaddress
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, Mapping, Optional
from urllib.parse import SplitResult, urlsplit

from path_mapping.errors import CredentialsMissing
from path_mapping.wire.credentials import Credentials

if TYPE_CHECKING:
    import ssl

WAIT_VARIABLE = "OBS_CREDENTIALS_WAIT"
WAIT_SECONDS = 60.0  # for a file of credentials that is renewed late
LONGEST_WAIT_SECONDS = 86400
KEY_VARIABLES = ("OBS_ACCESS_KEY_ID", "OBS_SECRET_ACCESS_KEY")
_FIELDS = ("access", "secret", "securitytoken")


def endpoint_of(environ: Mapping[str, str]) -> Optional[str]:
    """The endpoint in the environment: OBS_ENDPOINT, else the platform's S3_ENDPOINT; None without both.

    S3_USE_HTTPS=0 means `http://` if S3_ENDPOINT has no scheme.
    """
    if environ.get("OBS_ENDPOINT"):
        return environ["OBS_ENDPOINT"]
    platform = environ.get("S3_ENDPOINT")
    if not platform or "://" in platform:
        return platform or None
    return f"{'http' if environ.get('S3_USE_HTTPS') == '0' else 'https'}://{platform}"


def address_of(endpoint: str) -> SplitResult:
    """The endpoint as a URL, with https as the default scheme.

    Raises:
        CredentialsMissing: the endpoint is not a URL of a server.
    """
    address = urlsplit(endpoint if "://" in endpoint else f"https://{endpoint}")
    if not address.hostname or address.scheme not in ("http", "https"):
        raise CredentialsMissing(f"OBS_ENDPOINT: found {endpoint!r}, expected https://obs.REGION.example.com")
    try:
        valid = address.port is None or address.port > 0
    except ValueError:
        valid = False
    if not valid:
        raise CredentialsMissing(f"OBS_ENDPOINT: found {endpoint!r}, expected a port from 1 to 65535")
    return address


def credentials_of(environ: Mapping[str, str]) -> Optional[Credentials]:
    """The credentials in OBS_ACCESS_KEY_ID, OBS_SECRET_ACCESS_KEY and, if set, OBS_SECURITY_TOKEN.

    None if one of the first two is missing.
    """
    access_key, secret_key = (environ.get(name) for name in KEY_VARIABLES)
    if not (access_key and secret_key):
        return None
    return Credentials(access_key, secret_key, environ.get("OBS_SECURITY_TOKEN"))


def patience_of(environ: Mapping[str, str]) -> float:
    """The seconds for which a file with new credentials may be late: OBS_CREDENTIALS_WAIT, by default 60.

    Raises:
        CredentialsMissing: that is not a number of seconds.
    """
    text = environ.get(WAIT_VARIABLE) or str(WAIT_SECONDS)
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds <= LONGEST_WAIT_SECONDS:
        raise CredentialsMissing(
            f"{WAIT_VARIABLE}: found {text!r}, expected 0 to {LONGEST_WAIT_SECONDS} seconds"
        )
    return seconds


def read_credentials(file: Path) -> Credentials:
    """The temporary credentials in a file.

    The file holds the answer of IAM to POST /v3.0/OS-CREDENTIAL/securitytokens (IAM API reference), that is
    `{"credential": {"access": ..., "secret": ..., "securitytoken": ...}}`, or the inner object alone.

    Raises:
        CredentialsMissing: the file cannot be read; the message does not show its content.
    """
    expected = 'expected {"credential": {"access": ..., "secret": ..., "securitytoken": ...}}'
    try:
        found: Any = json.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise CredentialsMissing(f"OBS_CREDENTIALS_FILE: {file}: {error.strerror}") from error
    except ValueError as error:
        raise CredentialsMissing(f"OBS_CREDENTIALS_FILE: {file} is not JSON; {expected}") from error
    inner = found.get("credential", found) if isinstance(found, dict) else None
    values = [inner.get(name) for name in _FIELDS] if isinstance(inner, dict) else [None] * len(_FIELDS)
    missing = [name for name, value in zip(_FIELDS, values) if not (isinstance(value, str) and value)]
    if missing:
        raise CredentialsMissing(f"OBS_CREDENTIALS_FILE: {file} has no {', '.join(missing)}; {expected}")
    return Credentials(*map(str, values))


def bucket_in_path(host: str) -> bool:
    """True if the bucket cannot be a subdomain of the host: an IP address, or localhost."""
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return host == "localhost"
    return True


def verifying(bundle: Optional[str]) -> ssl.SSLContext:
    """A TLS context that verifies the certificate chain and the host name.

    Without a bundle by that of certifi.

    Raises:
        CredentialsMissing: the file is not a CA bundle.
    """
    import ssl  # slow to import, like the others: only once OBS is really used

    if bundle is None:
        import certifi

        bundle = certifi.where()
    try:
        return ssl.create_default_context(cafile=bundle)
    except OSError as error:  # includes ssl.SSLError
        raise CredentialsMissing(f"SSL_CERT_FILE: {bundle} is not a CA bundle: {error}") from error


def is_untrusted(error: Optional[BaseException]) -> bool:
    """Whether a certificate was not accepted."""
    if not isinstance(error, OSError):
        return False
    import ssl

    return isinstance(error, ssl.SSLCertVerificationError)


def proxy_for(address: SplitResult, environ: Mapping[str, str]) -> Optional[str]:
    """The URL of the proxy for this address, by https_proxy, http_proxy and no_proxy as curl reads them."""
    name = f"{address.scheme}_proxy"
    proxy = environ.get(name) or (environ.get(name.upper()) if name == "https_proxy" else None)
    no_proxy = {"no": environ.get("no_proxy") or environ.get("NO_PROXY") or ""}
    host = address.hostname
    if not proxy or not host:
        return None
    from urllib.request import proxy_bypass_environment  # type: ignore[attr-defined]  # of typeshed

    if proxy_bypass_environment(f".{host}", no_proxy) or proxy_bypass_environment(host, no_proxy):
        return None
    return proxy if "://" in proxy else f"http://{proxy}"
