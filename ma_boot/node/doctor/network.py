"""Checks of the container's network: host names of the workers, ports, OBS, the clock."""

from __future__ import annotations

import email.utils
import http.client
import socket
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from ma_boot.errors import ConfigError
from ma_boot.node.doctor.container import System
from ma_boot.node.launch.worker_specs import MINDSPORE_PORT, TORCH_PORT
from ma_boot.platform.modelarts.findings import ERROR, OK, WARNING, Finding
from ma_boot.platform.modelarts.job import JobEnvironment
from ma_boot.platform.modelarts.network import check_free
from path_mapping.errors import CredentialsMissing
from path_mapping.stores.access import (
    KEY_VARIABLES,
    TOKEN_VARIABLE,
    address_of,
    create_tls_context,
    endpoint_of,
    fault_of_endpoint,
    key_problems,
    read_credentials,
)

# Seconds; max. wait for an answer of OBS.
SECONDS = 10.0
# Host names that are looked up at the same time: each takes 10 s if the name server does not answer.
MOST_AT_ONCE = 32
# Seconds; OBS rejects older signatures (RequestTimeTooSkewed).
MOST_SKEW_SECONDS = 900.0
WARN_SKEW_SECONDS = 60.0
# HCCL's default; HCCL_IF_BASE_PORT changes it.
HCCL_PORTS = range(60000, 60032)


def check_names(system: System, job: JobEnvironment) -> Iterator[Finding]:
    """Checks that the host names of the workers have addresses."""
    with ThreadPoolExecutor(MOST_AT_ONCE) as pool:
        without = list(filter(None, pool.map(_without_address, job.place.hosts)))
    if without:
        yield Finding(
            "names", WARNING, "\n".join(without),
            "check again when all containers run, since they create the names; ma_boot retries for 300 s",
        )  # fmt: skip
    elif job.place.hosts:
        yield Finding("names", OK, f"{len(job.place.hosts)} workers have addresses")


def _without_address(host: str) -> str:
    """Returns the reason why a host name has no address; empty if it has one."""
    try:
        socket.getaddrinfo(host, None)
    except OSError as error:
        return f"{host}: {error.strerror or error}"
    return ""


def check_ports(system: System, job: JobEnvironment) -> Iterator[Finding]:
    """Checks that the ports of the rendezvous and of HCCL are free."""
    base = system.environ.get("HCCL_IF_BASE_PORT", "")
    hccl = range(int(base), int(base) + 32) if base.isdecimal() and int(base) <= 65504 else HCCL_PORTS
    in_use = [port for port in (MINDSPORE_PORT, TORCH_PORT, *hccl) if not _is_free(port)]
    if in_use:
        yield Finding(
            "ports", WARNING, f"in use: {', '.join(map(str, in_use))}",
            "stop the processes that use them, or choose others: MABOOT_RENDEZVOUS_PORT, HCCL_IF_BASE_PORT",
        )  # fmt: skip
    else:
        yield Finding("ports", OK, f"{MINDSPORE_PORT}, {TORCH_PORT} and {hccl[0]}-{hccl[-1]} are free")


def _is_free(port: int) -> bool:
    try:
        check_free([port])
    except ConfigError:
        return False
    return True


def check_obs(system: System, job: JobEnvironment) -> Iterator[Finding]:
    """Checks the credentials, the connection to OBS, and the difference of the clocks."""
    environ, file = system.environ, system.environ.get("OBS_CREDENTIALS_FILE")
    missing = [name for name in KEY_VARIABLES if not environ.get(name)]
    problems = key_problems({name: environ.get(name, "") for name in (*KEY_VARIABLES, TOKEN_VARIABLE)})
    if file:
        yield _credentials_file(file)
    elif missing or problems:
        unset = [f"{' and '.join(missing)} not set"] if missing else []
        yield Finding(
            "credentials", ERROR if problems else WARNING, "\n".join([*problems, *unset]),
            "for a path mapping, set them in the job's environment variables",
        )  # fmt: skip
    else:
        kind = "temporary" if environ.get("OBS_SECURITY_TOKEN") else "permanent"
        yield Finding("credentials", OK, f"{kind} credentials are set")
    endpoint = endpoint_of(environ)
    if not endpoint:
        yield Finding(
            "OBS",
            WARNING,
            "neither OBS_ENDPOINT nor S3_ENDPOINT is set",
            "for a path mapping, set one of them",
        )
        return
    fault = fault_of_endpoint(endpoint)
    if fault:
        yield Finding(
            "OBS", ERROR, f"the endpoint: {fault}", "set OBS_ENDPOINT to the endpoint of the job's region"
        )
        return
    try:
        skew = _skew(endpoint, environ.get("SSL_CERT_FILE"))
    except (OSError, ValueError, http.client.HTTPException, CredentialsMissing) as error:
        yield Finding(
            "OBS", ERROR, f"{endpoint} does not answer: {error}",
            "set the endpoint of the job's region; it must be reachable from the job's network",
        )  # fmt: skip
        return
    yield Finding("OBS", OK, f"{endpoint} answers")
    if skew is not None:
        yield judge_clock(skew)


def _credentials_file(file: str) -> Finding:
    try:
        read_credentials(Path(file))
    except CredentialsMissing as error:
        return Finding("credentials", ERROR, str(error), "write IAM's complete response to the file")
    return Finding("credentials", OK, f"temporary credentials in {file}")


def judge_clock(skew: float) -> Finding:
    """Returns the finding for a clock that is `skew` seconds ahead of the clock of OBS."""
    seen = f"{abs(skew):.0f} s {'ahead of' if skew > 0 else 'behind'} the clock of OBS"
    if abs(skew) >= MOST_SKEW_SECONDS:
        return Finding(
            "clock", ERROR, seen, "synchronize the node's clock (NTP): OBS rejects a skew of 15 minutes"
        )
    if abs(skew) >= WARN_SKEW_SECONDS:
        return Finding("clock", WARNING, seen, "synchronize the node's clock (NTP)")
    return Finding("clock", OK, seen)


def _skew(endpoint: str, bundle: str | None) -> float | None:
    """Returns the seconds by which this clock is ahead of the server's; None if the response has no date."""
    address = address_of(endpoint)
    host = address.hostname or ""
    connection: http.client.HTTPConnection
    if address.scheme == "https":
        connection = http.client.HTTPSConnection(
            host, address.port, timeout=SECONDS, context=create_tls_context(bundle or None)
        )
    else:
        connection = http.client.HTTPConnection(host, address.port, timeout=SECONDS)
    try:
        connection.request("HEAD", "/")
        date = connection.getresponse().getheader("Date")
    finally:
        connection.close()
    return None if date is None else time.time() - email.utils.parsedate_to_datetime(date).timestamp()
