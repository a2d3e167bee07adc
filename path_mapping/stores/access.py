"""Access to OBS: endpoint, credentials, CA bundle, proxy, and the targets of redirects."""

from __future__ import annotations

import re
import socket
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Callable, NamedTuple
from urllib.parse import SplitResult, unquote, urljoin, urlsplit

from path_mapping.defaults import STALL_SECONDS
from path_mapping.errors import CredentialsMissing

if TYPE_CHECKING:
    import ssl

# Bytes of a part of a multipart upload, and of the smallest file that is uploaded in parts.
PART = 16 << 20
MULTIPART_FROM = 64 << 20

# Sleeps for some seconds; returns True if the wait should end, like `Event.wait`.
Pause = Callable[[float], bool]

REDIRECTS = frozenset((301, 302, 307, 308))
# Redirects that one request follows.
MOST_REDIRECTS = 10
WAIT_VARIABLE = "OBS_CREDENTIALS_WAIT"
# Seconds; default of the wait for a credentials file that is renewed late.
WAIT_SECONDS = 60.0
LONGEST_WAIT_SECONDS = 86400
KEY_VARIABLES = ("OBS_ACCESS_KEY_ID", "OBS_SECRET_ACCESS_KEY")
TOKEN_VARIABLE = "OBS_SECURITY_TOKEN"
_FIELDS = ("access", "secret", "securitytoken")
# Characters of a wrong copy: OBS answers `SignatureDoesNotMatch`, or its name is not found, and neither
# names the character. The SDK of Huawei removes blanks around a key; here a key is used as it is, or refused.
_QUOTES = "\"'`\u201c\u201d\u2018\u2019\uff02\uff07"
_PLURALS = {"a blank": "blanks", "a line break": "line breaks", "a quote": "quotes"}
# An unexpanded variable of a shell or a template, or a text such as <AK>.
_PLACEHOLDER = re.compile(r"<.*>|\$\w+|\$?\{.*\}|\$\(.*\)|%\w+%")
_MASK = "***"
_EXPECTED_ENDPOINT = "https://obs.REGION.example.com"


class Credentials(NamedTuple):
    """Keys that sign requests; never printed."""

    access_key: str
    secret_key: str
    token: str | None = None

    def __repr__(self) -> str:
        return "Credentials()"


class Proxy(NamedTuple):
    """An HTTP proxy for all connections; never printed, as it may have a password."""

    host: str
    port: int
    user: str = ""
    password: str = ""

    def __repr__(self) -> str:
        return "Proxy()"


class Access(NamedTuple):
    """Service and credentials of all requests of a process.

    `bundle` is a file of CA certificates that replaces certifi's; `timeout` are the seconds without progress
    after which a request fails; `multipart_from` and `part` are in bytes.
    """

    endpoint: str
    credentials: Credentials
    bundle: str | None = None
    timeout: float = STALL_SECONDS
    multipart_from: int = MULTIPART_FROM
    part: int = PART
    proxy: Proxy | None = None


def endpoint_of(environ: Mapping[str, str]) -> str | None:
    """Returns the endpoint: OBS_ENDPOINT, else the platform's S3_ENDPOINT; None without both.

    S3_USE_HTTPS=0 means `http://` if S3_ENDPOINT has no scheme.
    """
    if environ.get("OBS_ENDPOINT"):
        return environ["OBS_ENDPOINT"]
    platform = environ.get("S3_ENDPOINT")
    if not platform or "://" in platform:
        return platform or None
    return f"{'http' if environ.get('S3_USE_HTTPS') == '0' else 'https'}://{platform}"


def address_of(endpoint: str, name: str = "OBS_ENDPOINT") -> SplitResult:
    """Returns the endpoint in the variable `name` as a URL, with https as the default scheme.

    Raises `CredentialsMissing` if the endpoint is not a URL of a server.
    """
    fault = fault_of_endpoint(endpoint)
    if fault:
        raise CredentialsMissing(f"{name}: {fault}")
    return urlsplit(endpoint if "://" in endpoint else f"https://{endpoint}")


def credentials_of(environ: Mapping[str, str]) -> Credentials | None:
    """Reads OBS_ACCESS_KEY_ID, OBS_SECRET_ACCESS_KEY and, if set, OBS_SECURITY_TOKEN.

    None if one of the first two is missing. Raises `CredentialsMissing` for values with characters of a wrong
    copy.
    """
    problems = key_problems({name: environ.get(name, "") for name in (*KEY_VARIABLES, TOKEN_VARIABLE)})
    if problems:
        raise CredentialsMissing(*problems)
    access_key, secret_key = (environ.get(name) for name in KEY_VARIABLES)
    if not (access_key and secret_key):
        return None
    return Credentials(access_key, secret_key, environ.get(TOKEN_VARIABLE))


def key_problems(values: Mapping[str, str]) -> list[str]:
    """Returns a message for each key or token, by its name, that was copied wrongly; none has its value."""
    faults = {name: faults_of_key(value) for name, value in values.items()}
    return [
        f"{name}: found {' and '.join(found)}, expected the value alone: copy it again"
        for name, found in faults.items()
        if found
    ]


def patience_of(environ: Mapping[str, str]) -> float:
    """Returns the seconds by which new credentials may be late: OBS_CREDENTIALS_WAIT, by default 60.

    Raises `CredentialsMissing` if that is not a number of seconds.
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
    """Reads temporary credentials from a file.

    The file holds the answer of IAM to POST /v3.0/OS-CREDENTIAL/securitytokens (IAM API reference), that is
    `{"credential": {"access": ..., "secret": ..., "securitytoken": ...}}`, or the inner object alone. Raises
    `CredentialsMissing` if the file is invalid; the message does not have its content.
    """
    import json  # slow to import

    expected = 'expected {"credential": {"access": ..., "secret": ..., "securitytoken": ...}}'
    try:
        document: Any = json.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise CredentialsMissing(f"OBS_CREDENTIALS_FILE: {file}: {error.strerror}") from error
    except ValueError as error:
        raise CredentialsMissing(f"OBS_CREDENTIALS_FILE: {file} is not JSON; {expected}") from error
    inner = document.get("credential", document) if isinstance(document, dict) else None
    values = [inner.get(name) for name in _FIELDS] if isinstance(inner, dict) else [None] * len(_FIELDS)
    missing = [name for name, value in zip(_FIELDS, values) if not (isinstance(value, str) and value)]
    if missing:
        raise CredentialsMissing(f"OBS_CREDENTIALS_FILE: {file} has no {', '.join(missing)}; {expected}")
    problems = key_problems(dict(zip(_FIELDS, map(str, values))))
    if problems:
        raise CredentialsMissing(*(f"OBS_CREDENTIALS_FILE: {file}: {problem}" for problem in problems))
    return Credentials(*map(str, values))


def bucket_in_path(host: str) -> bool:
    """Tells whether the bucket cannot be a subdomain of the host: an IP address, or localhost."""
    if ":" in host or host == "localhost":
        return True
    try:
        socket.inet_pton(socket.AF_INET, host)
    except (OSError, ValueError):
        return False
    return True


def endpoint_without_bucket(host: str, bucket: str) -> str:
    """Returns the host without the bucket before it; empty for an endpoint that does not begin with it.

    OBS shows a bucket's own address beside its endpoint, so it is copied easily. A bucket may have the name
    of a server, too (`minio` at `minio.local`), so the rest has to look like an endpoint.
    """
    rest = host[len(bucket) + 1 :] if host.startswith(f"{bucket}.") else ""
    return rest if re.match(r"(?:obs|s3)[.-]|localhost$", rest) else ""


def create_tls_context(bundle: str | None) -> ssl.SSLContext:
    """Creates a TLS context that verifies the certificate chain and the host name.

    Without a bundle, certifi's is used. Raises `CredentialsMissing` if the file is not a CA bundle.
    """
    import ssl  # slow to import

    if bundle is None:
        import certifi

        bundle = certifi.where()
    try:
        return ssl.create_default_context(cafile=bundle)
    except OSError as error:  # includes ssl.SSLError
        raise CredentialsMissing(f"SSL_CERT_FILE: {bundle} is not a CA bundle: {error}") from error


def is_untrusted(error: BaseException | None) -> bool:
    """Tells whether an error is that of a certificate that was not accepted."""
    if not isinstance(error, OSError):
        return False
    import ssl

    return isinstance(error, ssl.SSLCertVerificationError)


def proxy_for(address: SplitResult, environ: Mapping[str, str]) -> Proxy | None:
    """Returns the proxy for an address, by https_proxy, http_proxy and no_proxy as curl reads them.

    Raises `CredentialsMissing` if the variable is not a URL of a proxy.
    """
    name = f"{address.scheme}_proxy"
    text = environ.get(name) or (environ.get(name.upper()) if name == "https_proxy" else None)
    no_proxy = {"no": environ.get("no_proxy") or environ.get("NO_PROXY") or ""}
    host = address.hostname
    if not text or not host:
        return None
    from urllib.request import proxy_bypass_environment  # type: ignore[attr-defined]  # of typeshed

    if proxy_bypass_environment(f".{host}", no_proxy) or proxy_bypass_environment(host, no_proxy):
        return None
    url = urlsplit(text if "://" in text else f"http://{text}")
    try:
        port = url.port or 80
    except ValueError:
        port = 0
    # The message does not have the text, which may have a password.
    if not url.hostname or not port:
        raise CredentialsMissing(f"{name}: found another text, expected http://HOST:PORT")
    return Proxy(url.hostname, port, unquote(url.username or ""), unquote(url.password or ""))


def redirect_target(endpoint: SplitResult, bucket: str, key: str, location: str) -> SplitResult:
    """Returns the endpoint to which a Location header leads a request for an object, or for the bucket.

    Raises `ValueError` if the signed request must not go there.
    """
    before = "" if bucket_in_path(endpoint.hostname or "") else f"{bucket}."
    target = urlsplit(urljoin(f"{endpoint.scheme}://{before}{endpoint.netloc}/", location))
    host, path = target.hostname or "", unquote(target.path)
    if not bucket_in_path(host) and host.startswith(f"{bucket}."):
        host = host[len(bucket) + 1 :]
    elif f"{path}/".startswith(f"/{bucket}/"):
        path = path[len(bucket) + 1 :]
    else:
        raise ValueError(f"it is not in the bucket {bucket}")
    if path.lstrip("/") != key.lstrip("/"):
        raise ValueError("it is another object")
    shown = f"[{host}]" if ":" in host else host
    netloc = shown if target.port is None else f"{shown}:{target.port}"
    wanted = f"set OBS_ENDPOINT to {target.scheme}://{netloc}, if that is to be trusted"
    if target.scheme not in ("http", "https") or (endpoint.scheme, target.scheme) == ("https", "http"):
        raise ValueError(f"credentials do not go from {endpoint.scheme} to {target.scheme}: {wanted}")
    if not _belongs(host, endpoint.hostname or ""):
        raise ValueError(f"credentials for {endpoint.hostname} do not go to another domain: {wanted}")
    return SplitResult(target.scheme, netloc, "", "", "")


def _belongs(host: str, to: str) -> bool:
    """Tells whether a host is a server of the same service: the same one, or below its domain."""
    return host == to or (not bucket_in_path(to) and host.endswith(f".{_domain(to)}"))


def _domain(host: str) -> str:
    """Returns the domain of a service: `obs.REGION.DOMAIN` without two labels, `obs.DOMAIN` without one.

    Never a public suffix such as `com.br`, in which strangers have names: then one label more is kept.
    """
    labels = host.split(".")
    domain = labels[2:] if len(labels) > 3 else labels[1:] if len(labels) == 3 else labels
    is_public = len(domain) < 2 or (len(domain) == 2 and len(domain[1]) == 2 and len(domain[0]) <= 3)
    return ".".join(labels[1:] if is_public and len(labels) > 3 else labels if is_public else domain)


def faults_of_key(text: str) -> list[str]:
    """Returns the mistakes in a key or token, as nouns, which have no part of it but wrong characters."""
    faults = _faults_of_characters(text)
    if _MASK in text:
        faults.append("the asterisks of a masked value")
    elif _PLACEHOLDER.fullmatch(text.strip(_QUOTES + " \t\r\n")):
        faults.append("a placeholder in its place")
    return faults


def fault_of_endpoint(text: str) -> str:
    """Returns the mistake in an endpoint, `found ..., expected ...`; empty for the URL of a server.

    A `/` at the end is none. The message never has a login.
    """
    wanted = ["no " + re.sub("^(?:a|the) ", "", fault) for fault in _faults_of_characters(text)]
    clean = "".join(character for character in text if not _kind(character))
    if not clean:
        return _found(text, [_EXPECTED_ENDPOINT])
    try:
        address = urlsplit(clean if "://" in clean else f"https://{clean}")
        port = address.port
        is_server = bool(address.hostname) and address.scheme in ("http", "https")
    except ValueError:
        # The host has brackets without a pair, or the port is no number.
        return _found(text, [*wanted, "a port from 1 to 65535" if "[" not in clean else _EXPECTED_ENDPOINT])
    if not is_server:
        wanted.append(_EXPECTED_ENDPOINT)
    elif port == 0:
        wanted.append("a port from 1 to 65535")
    path = clean.partition("://")[2] if "://" in clean else clean
    path = path[len(address.netloc) :]
    if is_server and path.strip("/"):
        wanted.append(f"no path {path!r} after the server")
    if "@" in address.netloc:
        wanted.append("no login before the server")
    return _found(text, wanted) if wanted else ""


def _found(text: str, wanted: list[str]) -> str:
    return f"found {text.rpartition('@')[2]!r}, expected {', '.join(wanted)}"


def _faults_of_characters(text: str) -> list[str]:
    """Returns the wrong characters with their places, each once: `a blank at its end`, `quotes around it`."""
    plain = [index for index, character in enumerate(text) if not _kind(character)]
    if not plain:
        return ["nothing but blanks and quotes"] if text else []
    places: dict[str, list[str]] = {}
    for index, character in enumerate(text):
        kind = _kind(character)
        if kind:
            place = (
                "at its beginning" if index < plain[0] else "at its end" if index > plain[-1] else "inside"
            )
            known = places.setdefault(kind, [])
            if place not in known:
                known.append(place)
    faults = []
    for kind, known in places.items():
        if kind in _PLURALS and {"at its beginning", "at its end"} <= set(known):
            faults.append(f"{_PLURALS[kind]} around it")
            known = [place for place in known if place == "inside"]
        faults += [f"{kind} {place}" for place in known]
    return faults


def _kind(character: str) -> str:
    """Returns the kind of a character that no key and no endpoint has; empty for all others."""
    if character in "\r\n":
        return "a line break"
    if character in _QUOTES:
        return "a quote"
    if character.isspace():
        return "a blank"
    if character.isprintable() and character.isascii():
        return ""
    name = "non-ASCII" if character.isprintable() else "invisible"
    return f"the {name} character U+{ord(character):04X}"
