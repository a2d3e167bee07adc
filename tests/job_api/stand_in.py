"""The server: HTTP, signatures, faults, and the calls."""

from __future__ import annotations

import hmac
import json
import re
import socket
import threading
import time
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, parse_qsl, urlsplit

from huaweicloudsdkcore.sdk_request import SdkRequest
from huaweicloudsdkcore.signer.signer import Signer

from tests.job_api.job import StandInJob
from tests.job_api.validation import refusals

PROJECT = "0123456789abcdef0123456789abcdef"


class Keys:
    ak, sk = "AKPLANTED", "SKPLANTED"


@dataclass
class ApiFault:
    """A fault for requests whose method and path match `target`.

    `kind` is a status, with a code if it is not 2799, `html` (a 502 with a page), `portal` (a 200 with one), `empty` (204), `close` (before
    the answer), `torn` (in it), `slow`, or the JSON of an answer. `lost` and `late` perform the request; its
    answer is not sent, or when `answer_late` is set; `half` cuts the last character of a log's page in two.
    """

    kind: str
    target: str = ""
    times: int = 1


class ModelArtsStandIn:
    """Serves as a context manager."""

    def __init__(self, place: Path, obs: dict[str, str], rehearse: bool = True) -> None:
        self.place, self.obs, self.rehearse = place, obs, rehearse
        self.jobs: dict[str, StandInJob] = {}
        self.faults: list[ApiFault] = []
        self.flavors: list[dict[str, Any]] = []
        self.quotas: list[dict[str, Any]] = []
        self.requests: list[str] = []
        self.agents: list[str] = []
        self.answer_late, self.is_late = threading.Event(), False
        self._lock = threading.Lock()

    def __enter__(self) -> ModelArtsStandIn:
        stand_in = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *args: object) -> None: ...

            def do_GET(self) -> None:
                stand_in.serve(self)

            do_POST = do_GET

        class Server(ThreadingHTTPServer):
            daemon_threads = True
            request_queue_size = 128

            def handle_error(self, request: Any, client_address: Any) -> None: ...  # clients may go away

        self._server = Server(("127.0.0.1", 0), Handler)
        threading.Thread(
            target=self._server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True
        ).start()
        return self

    def __exit__(self, *exc: object) -> None:
        self.answer_late.set()
        self._server.shutdown()
        self._server.server_close()
        for job in self.jobs.values():
            if job.process is not None and job.process.poll() is None:
                job.process.terminate()
                job.process.wait()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def serve(self, handler: BaseHTTPRequestHandler) -> None:
        body = handler.rfile.read(int(handler.headers.get("Content-Length") or 0))
        target = f"{handler.command} {handler.path}"
        with self._lock:
            self.requests.append(target)
            self.agents.append(handler.headers.get("User-Agent", ""))
            fault = next((f for f in self.faults if f.times and re.search(f.target, target)), None)
            if fault is not None:
                fault.times -= 1
        kind = fault.kind if fault else ""
        if kind == "slow":
            time.sleep(0.5)
        status, content, content_type = _canned(kind)
        if status:
            _send(handler, status, content, content_type)
            return
        if kind != "close":
            status, answer = self._answer(handler, body)
        if kind == "late":
            self.is_late = True
            self.answer_late.wait(60)
        if kind in ("close", "lost"):
            handler.connection.shutdown(socket.SHUT_RDWR)
            return
        content = json.dumps(answer, ensure_ascii=False).encode()
        if kind == "half":
            content = content.replace('é", "lines"'.encode(), b'\xc3", "lines"')
        _send(handler, status, content, torn=kind == "torn")

    def _answer(self, handler: BaseHTTPRequestHandler, body: bytes) -> tuple[int, Any]:
        if not signature_is_good(handler.command, handler.path, handler.headers, body):
            return 401, {"error_code": "APIGW.0301", "error_msg": "Incorrect IAM authentication information"}
        url = urlsplit(handler.path)
        if url.path == "/v3/projects":
            return 200, {"projects": [{"id": PROJECT, "name": "cn-test-1"}]}
        query = {name: values[0] for name, values in parse_qs(url.query).items()}
        document = json.loads(body) if body else {}
        base = f"/v2/{PROJECT}"
        if not url.path.startswith(base):
            return 404, {"error_code": "ModelArts.2786", "error_msg": "project"}
        path = url.path[len(base) :]
        if path == "/training-jobs":
            return self._create(document)
        if path == "/training-job-searches":
            return self._search(document)
        if path == "/training-job-names":
            return 200, {"is_duplicate": job_named(self, query["job_name"]) is not None}
        if path == "/training-job-flavors":
            return 200, {"total_count": len(self.flavors), "flavors": self.flavors}
        if path == "/training-quotas":
            return 200, {"quotas": self.quotas}
        match = re.fullmatch(r"/training-jobs/([^/]+)(/.*)?", path)
        job = self.jobs.get(match[1]) if match else None
        if match is None or job is None:
            return 400, {"error_code": "ModelArts.2775", "error_msg": "The training job does not exist."}
        return self._of_job(job, match[2] or "", query, document)

    def _create(self, body: dict[str, Any]) -> tuple[int, Any]:
        wrong = list(refusals(body))
        if wrong:
            return 400, {"error_code": "ModelArts.2788", "error_msg": f"invalid parameter: {wrong}"}
        job = StandInJob(body, self.place / f"job-{len(self.jobs)}")
        self.jobs[job.id] = job
        if self.rehearse:
            job.rehearse(self.obs)
        return 201, job.details()

    def _search(self, body: dict[str, Any]) -> tuple[int, Any]:
        assert 1 <= body["limit"] <= 50
        jobs = [job for job in self.jobs.values() if job.workspace == body.get("workspace_id", "0")]
        jobs.sort(key=lambda job: -job.created)
        for wanted in body.get("filters", []):
            values = wanted["value"]
            if wanted["key"] == "phase":
                jobs = [job for job in jobs if job.phase in values]
            elif wanted["operator"] == "like":
                jobs = [job for job in jobs if values[0] in job.body["metadata"]["name"]]
            else:
                jobs = [job for job in jobs if job.body["metadata"]["name"] in values]
        start = body["offset"] * body["limit"]
        items = [job.details() for job in jobs[start : start + body["limit"]]]
        return 200, {"total": len(jobs), "count": len(items), "items": items}

    def _of_job(
        self, job: StandInJob, what: str, query: dict[str, str], body: dict[str, Any]
    ) -> tuple[int, Any]:
        if what == "":
            return 200, job.details()
        if what == "/events":
            limit = int(query.get("limit", 50))
            start = int(query.get("offset", 0)) * limit
            return 200, {"total": len(job.events), "events": job.events[start : start + limit]}
        if what == "/stages":
            return 200, {"total_count": len(job.stages), "running_records": job.stages}
        if what == "/actions":
            if body != {"action_type": "terminate"} or job.phase not in ("Creating", "Pending", "Running"):
                return 409, {"error_code": "ModelArts.2796", "error_msg": "The job cannot be stopped."}
            job.stop()
            return 202, job.details()
        log = job.logs.get(what.replace("/logs/", ""))
        most = int(query.get("lines", 50))
        if log is None or not 1 <= most <= 500:
            return 400, {"error_code": "ModelArts.2788", "error_msg": what}
        try:
            return 200, log.page(query.get("base_line"), query.get("order", "desc"), most)
        except KeyError:
            return 400, {"error_code": "ModelArts.2788", "error_msg": "base_line"}


def _canned(kind: str) -> tuple[int, bytes, str]:
    """The answer of a fault that is one; else a status of 0."""
    page = b"<html>Bad Gateway</html>"
    known = {"html": (502, page, "text/html"), "portal": (200, page, "text/html"), "empty": (204, b"", "")}
    if kind[:1] in ("{", "["):
        return 200, kind.encode(), "application/json"
    if kind[:3].isdecimal():
        text = "too many requests, says the gateway"
        message = {"error_code": kind[4:] or "ModelArts.2799", "error_msg": text}
        return int(kind[:3]), json.dumps(message).encode(), "application/json"
    return known.get(kind, (0, b"", ""))


def signature_is_good(method: str, target: str, headers: Any, body: bytes) -> bool:
    """Whether the SDK's own signer makes the same signature of what arrived."""
    words = headers.get("Authorization", "")
    if not words.startswith("SDK-HMAC-SHA256 "):
        return False
    fields = dict(part.strip().split("=", 1) for part in words.partition(" ")[2].split(","))
    url = urlsplit(target)
    again = SdkRequest(
        method,
        "http",
        headers["Host"],
        url.path,
        query_params=parse_qsl(url.query, keep_blank_values=True),
        header_params={name: headers[name] for name in fields["SignedHeaders"].split(";")},
        body=body,
    )
    return hmac.compare_digest(Signer(Keys()).sign(again).header_params["Authorization"], words)


def _send(
    handler: BaseHTTPRequestHandler,
    status: int,
    body: bytes,
    kind: str = "application/json",
    torn: bool = False,
) -> None:
    handler.send_response(status)
    handler.send_header("Content-Type", kind)
    handler.send_header("X-Request-Id", "request-1")
    handler.send_header("Content-Length", str(len(body)))
    handler.end_headers()
    handler.wfile.write(body[: len(body) // 2] if torn else body)
    if torn:
        handler.connection.shutdown(socket.SHUT_RDWR)


def job_named(stand_in: ModelArtsStandIn, name: str) -> StandInJob | None:
    return next((job for job in stand_in.jobs.values() if job.body["metadata"]["name"] == name), None)
