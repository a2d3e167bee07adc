"""The network of the container: names of the workers, ports, OBS, the clock."""

from __future__ import annotations

import email.utils
import http.client
import os
import socket
import ssl
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Iterator, Optional
from urllib.parse import urlsplit

from ma_boot.doctor.findings import ERROR, OK, WARNING, Finding, Patient
from ma_boot.errors import ConfigError
from ma_boot.launch import MINDSPORE_PORT, TORCH_PORT
from ma_boot.modelarts import JobEnvironment, check_free
from path_mapping.errors import CredentialsMissing
from path_mapping.stores import KEY_VARIABLES, endpoint_of, read_credentials

SECONDS = 10.0
MOST_AT_ONCE = 32
MOST_SKEW_SECONDS = 900.0  # OBS refuses signatures that are older (RequestTimeTooSkewed)
WARN_SKEW_SECONDS = 60.0
HCCL_PORTS = range(60000, 60032)


def names(patient: Patient, job: JobEnvironment) -> Iterator[Finding]:
    """Whether the workers' names have addresses."""
    with ThreadPoolExecutor(MOST_AT_ONCE) as pool:  # a name server that does not answer costs 10 s a name
        without = list(filter(None, pool.map(_without_address, job.worker_hosts)))
    if without:
        yield Finding(
            "names", WARNING, "\n".join(without),
            "a worker's name comes with its container: look again when all run; ma_boot asks for 300 s",
        )  # fmt: skip
    elif job.worker_hosts:
        yield Finding("names", OK, f"{len(job.worker_hosts)} workers have addresses")


def _without_address(host: str) -> str:
    """Why a name has no address; empty where it has one."""
    try:
        socket.getaddrinfo(host, None, socket.AF_INET)
    except OSError as error:
        return f"{host}: {error.strerror or error}"
    return ""


def ports(patient: Patient, job: JobEnvironment) -> Iterator[Finding]:
    """Whether the ports are free where the processes meet, and those that HCCL takes by itself."""
    base = patient.environ.get("HCCL_IF_BASE_PORT", "")
    hccl = range(int(base), int(base) + 32) if base.isdecimal() and int(base) <= 65504 else HCCL_PORTS
    taken = [port for port in (MINDSPORE_PORT, TORCH_PORT, *hccl) if not _is_free(port)]
    if taken:
        yield Finding(
            "ports", WARNING, f"taken: {', '.join(map(str, taken))}",
            "end what listens there, or choose others: --rendezvous-port, HCCL_IF_BASE_PORT",
        )  # fmt: skip
    else:
        yield Finding("ports", OK, f"{MINDSPORE_PORT}, {TORCH_PORT} and {hccl[0]}-{hccl[-1]} are free")


def _is_free(port: int) -> bool:
    try:
        check_free([port])
    except ConfigError:
        return False
    return True


def obs(patient: Patient, job: JobEnvironment) -> Iterator[Finding]:
    """Whether there are credentials, whether OBS answers, and how far this clock is from its."""
    environ, file = patient.environ, patient.environ.get("OBS_CREDENTIALS_FILE")
    missing = [name for name in KEY_VARIABLES if not environ.get(name)]
    if file:
        yield _credentials_file(file)
    elif missing:
        yield Finding(
            "credentials", WARNING, f"{' and '.join(missing)} not set",
            "a path mapping needs them: set them in the job's environment variables",
        )  # fmt: skip
    else:
        kind = "temporary" if environ.get("OBS_SECURITY_TOKEN") else "lasting"
        yield Finding("credentials", OK, f"{kind} credentials are set")
    endpoint = endpoint_of(environ)
    if not endpoint:
        yield Finding(
            "OBS", WARNING, "neither OBS_ENDPOINT nor S3_ENDPOINT is set", "a path mapping needs one of them"
        )
        return
    try:
        skew = _skew(endpoint, environ.get("SSL_CERT_FILE"))
    except (OSError, ValueError, http.client.HTTPException) as error:
        yield Finding(
            "OBS", ERROR, f"{endpoint} does not answer: {error}",
            "the endpoint must be that of the job's region, and reachable from its network",
        )  # fmt: skip
        return
    yield Finding("OBS", OK, f"{endpoint} answers")
    if skew is not None:
        yield clock(skew)


def _credentials_file(file: str) -> Finding:
    try:
        read_credentials(Path(file))
    except CredentialsMissing as error:
        return Finding("credentials", ERROR, str(error), "write the answer of IAM there, whole, before a job")
    return Finding("credentials", OK, f"temporary credentials in {file}")


def clock(skew: float) -> Finding:
    """The clock, `skew` seconds before that of OBS."""
    seen = f"{abs(skew):.0f} s {'before' if skew > 0 else 'behind'} the clock of OBS"
    if abs(skew) >= MOST_SKEW_SECONDS:
        return Finding(
            "clock", ERROR, seen, "OBS refuses requests from 15 minutes on: set the node's clock (NTP)"
        )
    if abs(skew) >= WARN_SKEW_SECONDS:
        return Finding("clock", WARNING, seen, "set the node's clock (NTP)")
    return Finding("clock", OK, seen)


def _skew(endpoint: str, bundle: Optional[str]) -> Optional[float]:
    """How far this clock is before the server's; None where the server tells none."""
    address = urlsplit(endpoint if "://" in endpoint else f"https://{endpoint}")
    if not address.hostname:
        raise ValueError("expected https://obs.REGION.example.com")
    connection: http.client.HTTPConnection
    if address.scheme == "https":
        context = ssl.create_default_context(cafile=bundle or _certificates())
        connection = http.client.HTTPSConnection(
            address.hostname, address.port, timeout=SECONDS, context=context
        )
    else:
        connection = http.client.HTTPConnection(address.hostname, address.port, timeout=SECONDS)
    try:
        connection.request("HEAD", "/")
        told = connection.getresponse().getheader("Date")
    finally:
        connection.close()
    return None if told is None else time.time() - email.utils.parsedate_to_datetime(told).timestamp()


def _certificates() -> str:
    import certifi  # as the path mapping's own connections

    return os.fspath(certifi.where())
