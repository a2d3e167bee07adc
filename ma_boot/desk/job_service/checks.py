"""Checks before a submission that need ModelArts or OBS: places, name, flavor, quota."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Callable, Union

from ma_boot.desk.job.job_file import JobFile
from ma_boot.desk.job.readers import JobChannel, JobProblem
from ma_boot.desk.job.rules import flavor_problems, places_of, quota_problems
from ma_boot.desk.job_service.api import JobApi, ServiceBusy
from ma_boot.errors import BootError
from path_mapping.errors import CredentialsMissing, NotFound, StoreError, Unreachable
from path_mapping.stores.open_store import open_store
from path_mapping.stores.store import Store

Finding = Union[JobProblem, str]  # what would make the job fail, or a note, such as what was not checked


def checked_by_services(
    job: JobFile, api: JobApi, environ: Mapping[str, str]
) -> tuple[list[JobProblem], list[str]]:
    """Checks the job's places with OBS, and its name, flavor and quota with ModelArts.

    Returns problems with which the job would fail, and notes. A service that does not answer does not prevent
    the submission: that is a note.
    """
    findings = [*_ask_obs(job, api.access.region, environ), *_ask_modelarts(job, api)]
    problems = [finding for finding in findings if isinstance(finding, JobProblem)]
    return problems, [finding for finding in findings if isinstance(finding, str)]


def _ask_obs(job: JobFile, region: str, environ: Mapping[str, str]) -> Iterator[Finding]:
    try:
        store = open_store(environ, None)
    except CredentialsMissing:
        return  # the upload of the code says it
    # Region by bucket; empty if unknown.
    regions: dict[str, str] = {}
    for key, url in places_of(job):
        if url.bucket in regions:
            continue
        regions[url.bucket] = ""
        try:
            regions[url.bucket] = store.region(url.bucket)
        except NotFound:
            yield job.problem(key, f"there is no bucket {url.bucket}")
        except Unreachable as error:
            yield f"places in OBS: not checked: {error}"
            return
        except StoreError as error:
            yield f"the region of {url.bucket}: not checked: {error}"
    yield from _far_away(job, regions, region)
    for channel in job.inputs:
        yield from _empty(store, job, channel)


def _far_away(job: JobFile, regions: Mapping[str, str], region: str) -> Iterator[JobProblem]:
    """Reports places in another region than the job; if that is unknown, than the first place."""
    known = [(key, url, regions[url.bucket]) for key, url in places_of(job) if regions.get(url.bucket)]
    here = region or (known[0][2] if known else "")
    for key, url, place in known:
        if place != here:
            yield job.problem(key, f"{url} is in {place}, expected the region of the job, {here}")


def _empty(store: Store, job: JobFile, channel: JobChannel) -> Iterator[Finding]:
    """Reports an input without objects."""
    key, url = f"inputs: {channel.name}", channel.url
    place = url.key if channel.is_object or not url.key else f"{url.key.rstrip('/')}/"
    try:
        if next(iter(store.list(url.bucket, place)), None) is None:
            yield job.problem(key, f"nothing is in {url}")
    except NotFound:
        return  # said of the bucket
    except StoreError as error:
        yield f"{key}: not checked: {error}"


def _ask_modelarts(job: JobFile, api: JobApi) -> Iterator[Finding]:
    def name() -> Iterator[Finding]:
        if api.name_is_taken(job.name, job.workspace):
            yield str(job.problem("name", f"there is a job {job.name} already"))

    questions: dict[str, Callable[[], Iterable[Finding]]] = {
        "name": name,
        "quota": lambda: quota_problems(job, api.quotas()),
        "flavor": lambda: flavor_problems(job, api.flavors()),
    }
    if job.pool:
        del questions["flavor"]
    for number, (topic, ask) in enumerate(questions.items()):
        try:
            yield from ask()
        except ServiceBusy as error:
            yield f"{', '.join([*questions][number:])}: not checked: {error}"
            return
        except BootError as error:  # no right to ask, or an answer of another shape
            yield f"{topic}: not checked: {error}"
