"""What ModelArts and OBS know of a job before it is submitted: places, name, flavor, quota."""

from __future__ import annotations

from typing import Callable, Dict, Iterator, List, Mapping, NamedTuple

from ma_boot.errors import BootError
from ma_boot.job import JobChannel, JobFile, JobProblem, flavor_problems, places_of, quota_problems
from ma_boot.job_service.api import JobApi, ServiceBusy
from path_mapping.errors import CredentialsMissing, NotFound, StoreError, Unreachable
from path_mapping.stores import Store, open_store


class Checked(NamedTuple):
    """What would make the job fail, and what is worth a note, such as what could not be asked for."""

    problems: List[JobProblem]
    notes: List[str]


def checked_by_services(job: JobFile, api: JobApi, environ: Mapping[str, str]) -> Checked:
    """Asks OBS for the places of the job, and ModelArts for its name, flavor and quota.

    A service that does not answer, or does not tell, is no reason to refuse the job: that is a note.
    """
    checked = Checked([], [])
    _ask_obs(job, api.access.region, environ, checked)
    _ask_modelarts(job, api, checked)
    return checked


def _ask_obs(job: JobFile, region: str, environ: Mapping[str, str], checked: Checked) -> None:
    try:
        store = open_store(environ, None)
    except CredentialsMissing:
        return  # the upload of the code says it
    regions: Dict[str, str] = {}
    try:
        for key, url in places_of(job):
            if url.bucket not in regions:
                regions[url.bucket] = _region(store, url.bucket, job.problem(key, ""), checked)
    except StoreError as error:
        checked.notes.append(f"places in OBS: not checked: {error}")
        return
    checked.problems.extend(_far_away(job, regions, region))
    for channel in job.inputs:
        if channel.url.bucket in regions:
            checked.problems.extend(_empty(store, job, channel, checked))


def _region(store: Store, bucket: str, at: JobProblem, checked: Checked) -> str:
    """The region of a bucket; empty if it is not known. A bucket that is not there is a problem."""
    try:
        return store.region(bucket)
    except NotFound:
        checked.problems.append(at._replace(text=f"there is no bucket {bucket}"))
    except Unreachable:
        raise
    except StoreError as error:
        checked.notes.append(f"the region of {bucket}: not checked: {error}")
    return ""


def _far_away(job: JobFile, regions: Mapping[str, str], region: str) -> Iterator[JobProblem]:
    """Places in another region than the job, or than the first of them where the job's is not known."""
    known = [(key, url, regions[url.bucket]) for key, url in places_of(job) if regions.get(url.bucket)]
    here = region or (known[0][2] if known else "")
    for key, url, place in known:
        if place != here:
            yield job.problem(key, f"{url} is in {place}, expected the region of the job, {here}")


def _empty(store: Store, job: JobFile, channel: JobChannel, checked: Checked) -> Iterator[JobProblem]:
    """An input where nothing is."""
    key, url = f"inputs: {channel.name}", channel.url
    place = url.key if channel.is_object or not url.key else f"{url.key.rstrip('/')}/"
    try:
        if next(iter(store.list(url.bucket, place)), None) is None:
            yield job.problem(key, f"nothing is in {url}")
    except NotFound:
        return  # said of the bucket
    except StoreError as error:
        checked.notes.append(f"{key}: not checked: {error}")


def _ask_modelarts(job: JobFile, api: JobApi, checked: Checked) -> None:
    def name() -> None:
        if api.name_is_taken(job.name, job.workspace):
            checked.notes.append(str(job.problem("name", f"there is a job {job.name} already")))

    questions: Dict[str, Callable[[], None]] = {
        "name": name,
        "quota": lambda: checked.problems.extend(quota_problems(job, api.quotas())),
        "flavor": lambda: checked.problems.extend(flavor_problems(job, api.flavors())),
    }
    if job.pool:
        del questions["flavor"]
    for number, (topic, ask) in enumerate(questions.items()):
        try:
            ask()
        except ServiceBusy as error:
            checked.notes.append(f"{', '.join([*questions][number:])}: not checked: {error}")
            return
        except BootError as error:  # no right to ask, or an answer of another shape
            checked.notes.append(f"{topic}: not checked: {error}")
