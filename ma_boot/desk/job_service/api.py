"""Client of ModelArts' API on the core of Huawei's SDK, which signs and sends requests.

Known traps of the SDK, each with a test: it drops the text of an error 429 of a GET; a timeout of a POST is
not one of its own exceptions; an empty answer or an HTML page looks like success; `~/.netrc` replaces the
signature; errors are logged to standard error; and its first import writes a random identity to the home.
"""

from __future__ import annotations

import configparser
import json
import logging
import random
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Callable, NoReturn, TypeVar

from ma_boot import __version__
from ma_boot.desk.job_service.answers import (
    EVENTS,
    FLAVORS,
    JOB,
    JOBS,
    LINES,
    NAME,
    QUOTAS,
    STAGES,
    select_fields,
)
from ma_boot.errors import ConfigError, InputMissing, StoreUnavailable, listed
from ma_boot.node.environment.extras import install_command
from ma_boot.redact import without_secrets
from path_mapping.errors import CredentialsMissing
from path_mapping.stores.access import key_problems, read_credentials

_REGIONS = ("HUAWEICLOUD_SDK_REGION", "HW_REGION_NAME", "OS_REGION_NAME")
_REGION = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*(_[A-Za-z0-9-]+)?")  # with a subproject: cn-north-4_name
_KEYS = (  # access key, secret key, token: of Huawei's SDK, of path_mapping, of Terraform's provider
    ("HUAWEICLOUD_SDK_AK", "HUAWEICLOUD_SDK_SK", "HUAWEICLOUD_SDK_SECURITY_TOKEN"),
    ("OBS_ACCESS_KEY_ID", "OBS_SECRET_ACCESS_KEY", "OBS_SECURITY_TOKEN"),
    ("HW_ACCESS_KEY", "HW_SECRET_KEY", "HW_SECURITY_TOKEN"),
)
_ENDPOINT = re.compile(r"(?:https?://)?(?:modelarts|obs)\.([a-z0-9-]+)\.myhuaweicloud\.(?:com|cn|eu)/?")


@dataclass(frozen=True)
class ApiAccess:
    """Credentials and addresses for requests; without a `project_id`, the SDK requests it from IAM.

    `origin` is the source of the keys, for messages. `workspace` is the workspace whose jobs are listed, by
    default ModelArts' default workspace.
    """

    access_key: str = field(repr=False)
    secret_key: str = field(repr=False)
    token: str | None = field(repr=False)
    origin: str
    endpoint: str
    region: str
    project_id: str
    iam_endpoint: str
    workspace: str = ""


def api_access(environ: Mapping[str, str]) -> ApiAccess:
    """Reads the access from variables, and the keys also from `~/.huaweicloud/credentials`.

    Variables have the names that Huawei's own tools use. Raises `ConfigError` that lists all missing and
    wrong values.
    """
    problems: list[str] = []
    profile = _profile(environ, problems)
    own = environ.get("MODELARTS_ENDPOINT", "")
    by_name = _region(environ, problems)
    where = by_name or _region_of(own) or _region_of(environ.get("OBS_ENDPOINT", ""))
    keys = _keys(environ, profile, problems)
    project = environ.get("HUAWEICLOUD_SDK_PROJECT_ID") or profile.get("project_id", "")
    if keys is None and not environ.get("OBS_CREDENTIALS_FILE"):
        names = ", or ".join(f"{ak} and {sk}" for ak, sk, _ in _KEYS)
        others = "OBS_CREDENTIALS_FILE, or ak and sk in [basic] of ~/.huaweicloud/credentials"
        problems.append(f"keys: set {names}, or {others}")
    if not where and not own:
        problems.append(f"region: set {_REGIONS[0]} to the region of the job, e.g. cn-north-4")
    elif not where and not project:
        problems.append(
            f"project: set HUAWEICLOUD_SDK_PROJECT_ID, or {_REGIONS[0]} for a project of this name"
        )
    if problems or keys is None:
        raise ConfigError(listed("ModelArts cannot be reached; missing or wrong", problems))
    # As in the table of regions of Huawei's SDK.
    domain = "cn" if where == "ap-southeast-1" else "com"
    address = own or f"modelarts.{where}.myhuaweicloud.{domain}"
    return ApiAccess(
        *keys,
        endpoint=(address if "://" in address else f"https://{address}").rstrip("/"),
        region=where,
        project_id=project,
        iam_endpoint=environ.get("HUAWEICLOUD_SDK_IAM_ENDPOINT") or profile.get("iam_endpoint", ""),
        workspace=environ.get("MODELARTS_WORKSPACE", ""),
    )


def _region(environ: Mapping[str, str], problems: list[str]) -> str:
    """Returns the region that a variable names; empty without one."""
    name = next((name for name in _REGIONS if environ.get(name)), "")
    if name and not _REGION.fullmatch(environ[name]):
        problems.append(f"{name}: found {environ[name]!r}, expected a region such as cn-north-4")
    return environ.get(name, "")


def _region_of(endpoint: str) -> str:
    match = _ENDPOINT.fullmatch(endpoint)
    return match[1] if match else ""


def _keys(
    environ: Mapping[str, str], profile: Mapping[str, str], problems: list[str]
) -> tuple[str, str, str | None, str] | None:
    """Returns access key, secret key, token and their source: the first complete pair."""
    own_ak, own_sk, _ = _KEYS[0]
    file = environ.get("OBS_CREDENTIALS_FILE")
    if file and not (environ.get(own_ak) and environ.get(own_sk)):
        try:
            keys = read_credentials(Path(file))
        except CredentialsMissing as error:
            problems += error.problems
            return None
        return keys.access_key, keys.secret_key, keys.token, "OBS_CREDENTIALS_FILE"
    for ak, sk, token in _KEYS:
        if environ.get(ak) and environ.get(sk):
            problems += key_problems({name: environ.get(name, "") for name in (ak, sk, token)})
            return environ[ak], environ[sk], environ.get(token) or None, f"{ak} and {sk}"
    if profile.get("ak") and profile.get("sk"):
        names = ("ak", "sk", "security_token")
        faults = key_problems({name: profile.get(name, "") for name in names})
        problems += [f"~/.huaweicloud/credentials: {fault}" for fault in faults]
        return profile["ak"], profile["sk"], profile.get("security_token") or None, "the credentials file"
    return None


def _profile(environ: Mapping[str, str], problems: list[str]) -> dict[str, str]:
    """Reads the section `[basic]` of the SDK's credentials file; empty without one."""
    name = environ.get("HUAWEICLOUD_SDK_CREDENTIALS_FILE")
    home = environ.get("HOME")
    path = Path(name) if name else Path(home, ".huaweicloud", "credentials") if home else None
    if path is None or not path.is_file():
        return {}
    parser = configparser.ConfigParser(interpolation=None)
    try:
        parser.read(path, encoding="utf-8")
    except (OSError, configparser.Error, UnicodeDecodeError) as error:
        problems.append(f"{path} cannot be read: {type(error).__name__}")  # its text may quote a key
        return {}
    return dict(parser["basic"]) if parser.has_section("basic") else {}


# Timeouts in seconds: for the connection, and between two bytes of an answer.
SECONDS = (10, 60)
# Maximum number of characters of a message: the service may answer with a page of HTML.
_LONGEST = 400
# Maximum number of jobs per request of a search.
_PAGE = 50
# Seconds between requests to a busy IAM.
_IAM_PAUSES = (0.5, 1.0, 2.0)
_JOB_UNKNOWN = {"ModelArts.2775"}
# Error codes for a log that does not exist yet.
_NOT_YET = {"ModelArts.2776", "ModelArts.2818"}


class ServiceBusy(StoreUnavailable):
    """No answer, or a temporary error: 429, 5xx, a connection that failed."""


class ServiceRefused(StoreUnavailable):
    """The service rejected the credentials, or their permissions do not suffice."""


class AnswerOdd(StoreUnavailable):
    """A malformed answer: a needed field is missing."""


class JobApi:
    """The API calls for jobs.

    Each raises `ServiceBusy`, `ServiceRefused`, `AnswerOdd`, `ConfigError` for an invalid request, or
    `InputMissing` for an unknown job. `note` is called once for each field of an answer that is left out
    because its type is not the documented one.
    """

    def __init__(self, access: ApiAccess, note: Callable[[str], None] = lambda text: None) -> None:
        self.access = access
        self._note, self._noted = note, set[str]()
        self._secrets = list(filter(None, (access.secret_key, access.token, access.access_key)))
        self._client = self._connected()

    def create(self, body: Mapping[str, Any]) -> str:
        """Creates a job and returns its id."""
        return str(self._job(self._call("POST", "/training-jobs", JOB, body=body))["metadata"]["id"])

    def details(self, job: str) -> dict[str, Any]:
        """Returns the details of a job."""
        return self._job(self._call("GET", f"/training-jobs/{job}", JOB))

    def search(
        self, filters: list[dict[str, Any]], most: int, workspace: str | None = None
    ) -> list[dict[str, Any]]:
        """Returns the newest jobs of a workspace, by default the workspace of the access."""
        here = self.access.workspace if workspace is None else workspace
        body = {"sort_by": "create_time", "order": "desc", "filters": filters, "limit": min(most, _PAGE)}
        body |= {"workspace_id": here} if here else {}
        jobs: dict[str, dict[str, Any]] = {}  # by id: new jobs shift the pages
        for page in range(-(-most // _PAGE)):
            items = self._call("POST", "/training-job-searches", JOBS, body={**body, "offset": page})["items"]
            for job in items:
                jobs.setdefault(job["metadata"]["id"] or "", job)
            if len(items) < _PAGE:
                break
        return [job for job_id, job in jobs.items() if job_id][:most]

    def name_is_taken(self, name: str, workspace: str) -> bool:
        """Returns whether the workspace has a job of this name."""
        query = {"job_name": name, "workspace_id": workspace or None}
        return bool(self._call("GET", "/training-job-names", NAME, query)["is_duplicate"])

    def flavors(self) -> list[dict[str, Any]]:
        """Returns the flavors of the public pool."""
        return list(self._call("GET", "/training-job-flavors", FLAVORS)["flavors"])

    def quotas(self) -> list[dict[str, Any]]:
        """Returns the quotas of training jobs: `resource`, `quota` and `used`."""
        return list(self._call("GET", "/training-quotas", QUOTAS)["quotas"])

    def stop(self, job: str) -> None:
        """Requests the end of a job."""
        self._call("POST", f"/training-jobs/{job}/actions", {}, body={"action_type": "terminate"}, empty=True)

    def events(self, job: str, page: int) -> list[dict[str, Any]]:
        """Returns a page of at most 100 events, the oldest first."""
        query = {"offset": page, "limit": 100, "order": "asc"}
        return list(self._call("GET", f"/training-jobs/{job}/events", EVENTS, query, empty=True)["events"])

    def stages(self, job: str) -> list[dict[str, Any]]:
        """Returns the starts of a job, each with its `record_order` and its `stages`."""
        answer = self._call("GET", f"/training-jobs/{job}/stages", STAGES, empty=True)
        return list(answer["running_records"])

    def lines(self, job: str, task: str, base: str | None, order: str, most: int) -> dict[str, Any]:
        """Returns a page of a worker's log: `content`, and the identities of its first and last line.

        Empty if the worker has no log yet.
        """
        query = {"base_line": base, "lines": most, "order": order}
        try:
            return dict(self._call("GET", f"/training-jobs/{job}/logs/{task}", LINES, query, empty=True))
        except LogMissing:
            return {}

    def _call(
        self,
        method: str,
        path: str,
        shape: dict[str, Any],
        query: Mapping[str, Any] | None = None,
        body: Any = None,
        empty: bool = False,
    ) -> Any:
        """Sends a request; returns the fields of the answer that `shape` describes.

        With `empty`, an answer without content is the same as `{}`."""
        from huaweicloudsdkcore.exceptions import exceptions
        from requests import RequestException

        what = f"{method} {path}"
        try:
            answer = self._client.do_http_request(
                method=method,
                resource_path="/v2/{project_id}" + path,
                path_params={},
                query_params=[(name, value) for name, value in (query or {}).items() if value is not None],
                header_params={"X-Language": "en-us"},
                body=body,
                response_type="Raw",
            )
        except exceptions.ServiceResponseException as error:
            self._raise(what, error)
        except (exceptions.SdkException, RequestException, OSError, ValueError) as error:
            raise ServiceBusy(
                self._clean(f"{what}: no answer from {self.access.endpoint}: {error}")
            ) from error
        content = answer.raw_content or b""
        if not content.strip() and empty:
            content = b"{}"
        try:
            document = json.loads(content.decode("utf-8", "replace"))  # a page of a log may cut a character
        except (ValueError, RecursionError) as error:
            text = "an empty answer" if not content.strip() else f"no JSON but {content[:60]!r}"
            raise ServiceBusy(
                self._clean(f"{what}: expected JSON from {self.access.endpoint}, found {text}")
            ) from error
        if not isinstance(document, dict):
            raise AnswerOdd(
                self._clean(f"{what}: expected fields, found {str(content[:60], errors='replace')}")
            )
        return select_fields(document, shape, "", self._left_out)

    def _left_out(self, text: str) -> None:
        """Notes each field that is left out, once."""
        place = text.partition(":")[0]
        if place not in self._noted:
            self._noted.add(place)
            self._note(self._clean(f"left out of ModelArts' answers: {text}"))

    def _raise(self, what: str, error: Any) -> NoReturn:
        """Raises the exception for an error of the service."""
        status, code = int(error.status_code), str(error.error_code or "")
        text = " ".join(str(error.error_msg or "").split())
        shown = "a page of HTML" if text.startswith("<") else text
        request = f" (request {error.request_id})" if error.request_id else ""
        message = self._clean(f"{what}: {status} {code if code != str(status) else ''}: {shown}") + request
        if code in _JOB_UNKNOWN:
            raise InputMissing(message)
        if code in _NOT_YET:
            raise LogMissing(message)
        if status in (408, 429) or status >= 500 or (status == 409 and what.startswith("GET")):
            raise ServiceBusy(message)
        if status in (401, 403):
            raise ServiceRefused(f"{message}; the keys are from {self.access.origin}")
        raise ConfigError(message)

    def _clean(self, text: str) -> str:
        return without_secrets(text, self._secrets)[:_LONGEST].replace(" : ", ": ")

    def _job(self, answer: dict[str, Any]) -> dict[str, Any]:
        """Checks that the answer is a job."""
        if not answer["metadata"]["id"]:
            raise AnswerOdd(f"expected a job from {self.access.endpoint}, found no metadata.id in the answer")
        return answer

    def _connected(self) -> Any:
        """Returns the SDK's client; looks the project up if it is unknown."""
        try:
            _leave_no_identity()
            from huaweicloudsdkcore.auth.credentials import BasicCredentials
            from huaweicloudsdkcore.client import Client, ClientBuilder
            from huaweicloudsdkcore.http.http_config import HttpConfig
            from huaweicloudsdkcore.region.region import Region
            from huaweicloudsdkcore.sdk_response import SdkResponse
            from requests.adapters import HTTPAdapter
        except ImportError as error:
            raise ConfigError(f"Huawei's SDK is missing ({error}): {install_command('job')}") from error

        access = self.access
        raw = type("Raw", (SdkResponse,), {"openapi_types": {}, "attribute_map": {}, "sensitive_list": []})

        class ModelArts(Client):  # type: ignore[misc]  # the SDK has no types
            """The SDK's client, which returns raw answers."""

            def __init__(self) -> None:
                super().__init__()
                self._logger.addHandler(logging.NullHandler())
                self.model_package = SimpleNamespace(Raw=raw)

            def init_http_client(self) -> None:
                super().init_http_client()
                session = self._http_client._session
                session.auth = lambda request: request  # else an entry in ~/.netrc replaces the signature
                for scheme in ("https://", "http://"):
                    session.mount(scheme, HTTPAdapter(max_retries=0))  # the SDK's loses the text of a 429

        keys = BasicCredentials(access.access_key, access.secret_key, access.project_id or None)
        if access.token:
            keys = keys.with_security_token(access.token)
        if access.iam_endpoint:
            keys = keys.with_iam_endpoint(access.iam_endpoint)
        config = HttpConfig(timeout=SECONDS, retry_times=0, user_agent=f"ma_boot/{__version__}")
        builder = ClientBuilder(ModelArts).with_credentials(keys).with_http_config(config)
        if access.project_id:
            return builder.with_endpoint(access.endpoint).build()
        return self._of_region(builder.with_region(Region(access.region, access.endpoint)))

    def _of_region(self, builder: Any) -> Any:
        """Builds a client that requests the region's project from IAM, several times if IAM is busy."""
        from huaweicloudsdkcore.exceptions import exceptions
        from requests import RequestException

        for pause in (*_IAM_PAUSES, None):
            try:
                return builder.build()
            except (exceptions.SdkException, OSError, ValueError, TypeError, AttributeError) as error:
                status = getattr(error.__context__, "status_code", 0)  # the SDK wraps it
                lost = isinstance(error, (exceptions.ConnectionException, RequestException))
                if pause is None or not (lost or status in (408, 429) or status >= 500):
                    text = f"the project of region {self.access.region} was not found: {error}"
                    raise ServiceRefused(f"{self._clean(text)}; set HUAWEICLOUD_SDK_PROJECT_ID") from error
                time.sleep(pause)
        raise AssertionError("unreachable")


def _leave_no_identity() -> None:
    """Imports the SDK's User-Agent module without a home directory, where it would write an identity.

    The identity is part of a User-Agent that is never sent (`HttpConfig.user_agent`).
    """
    from huaweicloudsdkcore.utils import filepath_utils

    home = filepath_utils.get_home_path
    filepath_utils.get_home_path = lambda: ""
    try:
        import huaweicloudsdkcore.http.user_agent  # noqa: F401  # for what its import does
    except ImportError:
        pass  # an older SDK tells nothing
    finally:
        filepath_utils.get_home_path = home


class LogMissing(StoreUnavailable):
    """The worker has no log yet."""


Answer = TypeVar("Answer")
LONGEST_PAUSE = 60.0
# Seconds without any answer, after which the endpoint is considered wrong. Once the service has answered,
# calls are retried without limit: watching a job must survive an outage.
FIRST_ANSWER_SECONDS = 60.0
_SHORTEST_PAUSE = 1.0


class PatientApi:
    """Retries calls with backoff; reconnects once when credentials have expired.

    `pause` sleeps for some seconds; `say` is called once when calls begin to fail, and once when they succeed
    again.
    """

    def __init__(
        self,
        open_api: Callable[[], JobApi],
        say: Callable[[str], None],
        pause: Callable[[float], None],
        seconds: float = _SHORTEST_PAUSE,
    ) -> None:
        self.api = open_api()
        self._open, self._say, self._pause, self._first = open_api, say, pause, seconds
        self._refused = False
        self._answered = False

    def call(self, ask: Callable[..., Answer], *arguments: Any) -> Answer:
        """Returns `ask(api, *arguments)`, an idempotent call, which is retried.

        Raises `ServiceBusy` if the service has never answered, `ServiceRefused` if it refuses the
        credentials, also after they were read again.
        """
        pause, is_busy, waited = self._first, False, 0.0
        while True:
            try:
                answer = ask(self.api, *arguments)
            except ServiceRefused:
                if self._refused:
                    raise
                self._refused = True  # keys that have expired may have been renewed where they are from
                self.api = self._open()
            except ServiceBusy as error:
                if not self._answered and waited >= FIRST_ANSWER_SECONDS:
                    raise
                if not is_busy:
                    self._say(f"{error}; trying again until it answers, the job goes on")
                is_busy = True
                self._pause(pause * random.uniform(0.5, 1.0))
                waited += pause
                pause = min(2 * pause, LONGEST_PAUSE)
            else:
                self._refused, self._answered = False, True
                if is_busy:
                    self._say("ModelArts answers again")
                return answer
