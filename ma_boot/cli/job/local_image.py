"""The image of a job where this machine's container engine has it: checked before the job is submitted."""

from __future__ import annotations

from typing import TYPE_CHECKING, List, Mapping, Optional, Tuple

from ma_boot.cli.image import stopped_by_sigterm
from ma_boot.errors import BootError, InputMissing
from ma_boot.image import check_image, engine, image_attributes
from ma_boot.job import JobFile, JobProblem, image_url

if TYPE_CHECKING:
    from docker import DockerClient


def image_findings(
    job: JobFile, region: str, environ: Mapping[str, str]
) -> Tuple[List[JobProblem], List[str]]:
    """What is wrong with the image, and what is worth a note; nothing where no engine has it."""
    try:
        with stopped_by_sigterm(), engine(environ) as client:
            name = _local_name(client, job, region)
            if name is None:
                return [], ["image: not checked: the container engine here does not have it"]
            checked = check_image(client, name)
    except BootError as error:
        return [], [f"image: not checked: {str(error).splitlines()[0]}"]
    wrong = [one for one in checked.findings if one.severity == "error"]
    problems = [job.problem("image", f"{one.check}: {one.evidence}; {one.remedy}") for one in wrong]
    return problems, [f"image: {one.check}: {one.evidence}" for one in checked.findings if one not in wrong]


def _local_name(client: DockerClient, job: JobFile, region: str) -> Optional[str]:
    """The name of the image on the engine: as in the job, as SWR has it, or without its registry."""
    url = image_url(job.image)
    in_swr = f"swr.{region}.myhuaweicloud.com/{url}" if region else url
    for name in dict.fromkeys((job.image, in_swr, url)):
        try:
            image_attributes(client, name)
        except InputMissing:
            continue
        return name
    return None
