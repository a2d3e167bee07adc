"""Where a response that redirects a request leads: the endpoint that has the bucket. Pure."""

from __future__ import annotations

from urllib.parse import SplitResult, unquote, urljoin, urlsplit

from path_mapping.wire.access import bucket_in_path

REDIRECTS = frozenset((301, 302, 307, 308))
MOST_REDIRECTS = 10  # of one request


def redirected(endpoint: SplitResult, bucket: str, key: str, location: str) -> SplitResult:
    """The endpoint to which the header Location leads a request for an object, or for the bucket itself.

    Raises:
        ValueError: the request, which is signed with our keys, must not go there.
    """
    before = "" if bucket_in_path(endpoint.hostname or "") else f"{bucket}."
    there = urlsplit(urljoin(f"{endpoint.scheme}://{before}{endpoint.netloc}/", location))
    host, path = there.hostname or "", unquote(there.path)
    if not bucket_in_path(host) and host.startswith(f"{bucket}."):
        host = host[len(bucket) + 1 :]
    elif f"{path}/".startswith(f"/{bucket}/"):
        path = path[len(bucket) + 1 :]
    else:
        raise ValueError(f"it is not in the bucket {bucket}")
    if path.lstrip("/") != key.lstrip("/"):
        raise ValueError("it is another object")
    shown = f"[{host}]" if ":" in host else host
    netloc = shown if there.port is None else f"{shown}:{there.port}"
    wanted = f"set OBS_ENDPOINT to {there.scheme}://{netloc}, if that is to be trusted"
    if there.scheme not in ("http", "https") or (endpoint.scheme, there.scheme) == ("https", "http"):
        raise ValueError(f"credentials do not go from {endpoint.scheme} to {there.scheme}: {wanted}")
    if not _belongs(host, endpoint.hostname or ""):
        raise ValueError(f"credentials for {endpoint.hostname} do not go to another domain: {wanted}")
    return SplitResult(there.scheme, netloc, "", "", "")


def _belongs(host: str, to: str) -> bool:
    """Whether both are servers of one service: the same one, or below the domain of the other."""
    return host == to or (not bucket_in_path(to) and host.endswith(f".{_domain(to)}"))


def _domain(host: str) -> str:
    """The domain of a service: `obs.REGION.DOMAIN` without its first two labels, `obs.DOMAIN` without one.

    Never one in which anybody may have a name, such as `com.br`: it keeps another label then.
    """
    labels = host.split(".")
    domain = labels[2:] if len(labels) > 3 else labels[1:] if len(labels) == 3 else labels
    is_public = len(domain) < 2 or (len(domain) == 2 and len(domain[1]) == 2 and len(domain[0]) <= 3)
    return ".".join(labels[1:] if is_public and len(labels) > 3 else labels if is_public else domain)
