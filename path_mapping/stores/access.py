"""Where a service is: its address, its certificate, and the proxy before it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Mapping, Optional
from urllib.parse import SplitResult, urlsplit

from path_mapping.errors import CredentialsMissing

if TYPE_CHECKING:
    import ssl


def endpoint_of(environ: Mapping[str, str]) -> Optional[str]:
    """What the environment names: OBS_ENDPOINT, else the platform's S3_ENDPOINT; None without both.

    Where the platform's has no scheme, S3_USE_HTTPS=0 makes it a plain one.
    """
    if environ.get("OBS_ENDPOINT"):
        return environ["OBS_ENDPOINT"]
    platform = environ.get("S3_ENDPOINT")
    if not platform or "://" in platform:
        return platform or None
    return f"{'http' if environ.get('S3_USE_HTTPS') == '0' else 'https'}://{platform}"


def address_of(endpoint: str) -> SplitResult:
    """The endpoint as a URL, https where it says nothing; raises `CredentialsMissing` for what is none."""
    address = urlsplit(endpoint if "://" in endpoint else f"https://{endpoint}")
    if not address.hostname or address.scheme not in ("http", "https"):
        raise CredentialsMissing(f"OBS_ENDPOINT: found {endpoint!r}, expected https://obs.REGION.example.com")
    return address


def bucket_in_path(host: str) -> bool:
    """True where the bucket cannot stand before the host: an IP address, or this machine."""
    import ipaddress

    try:
        ipaddress.ip_address(host)
    except ValueError:
        return host == "localhost"
    return True


def verifying(bundle: str) -> ssl.SSLContext:
    """A context that checks the chain and the host name."""
    import ssl  # slow to import, as are the others: only where OBS is really opened

    try:
        return ssl.create_default_context(cafile=bundle)
    except OSError as error:  # ssl.SSLError is one
        raise CredentialsMissing(f"SSL_CERT_FILE: {bundle} is no file of certificates: {error}") from error


def proxy_for(address: SplitResult, environ: Mapping[str, str]) -> Optional[str]:
    """The URL of the proxy that the environment names for this address; by the rules of curl and Python."""
    from urllib.request import proxy_bypass_environment  # type: ignore[attr-defined]  # of typeshed

    name = f"{address.scheme}_proxy"
    proxy = environ.get(name) or (environ.get(name.upper()) if name == "https_proxy" else None)
    no_proxy = environ.get("no_proxy") or environ.get("NO_PROXY") or ""
    if not proxy or not address.hostname:
        return None
    if proxy_bypass_environment(f".{address.hostname}", {"no": no_proxy}) or proxy_bypass_environment(
        address.hostname, {"no": no_proxy}
    ):
        return None
    return proxy if "://" in proxy else f"http://{proxy}"
