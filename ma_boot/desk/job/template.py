"""The first job file, with comments, and the first path mapping. Pure."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field

from ma_boot.desk.job.readers import PLAIN

_JOB = """\
# A training job on ModelArts. Rehearse it:  ma_boot --local --job job.yaml
#                              Submit it:    ma_boot job submit job.yaml
# `ma_boot job submit` changes a key by --set nodes=2. Local paths start in the current directory.

name: {name}
{image}
command: {command}
{options}
nodes: {nodes}
devices-per-node: {devices}
{pool}
{flavor}   # cards per node of a dedicated pool, or a public pool's flavor

# code-dir: .                    # default: the directory of the script
{known}code-url: {code}/   # the code is uploaded to a directory below it, named after the job
# exclude: [data/, "*.ckpt"]     # parts of the code not to upload, as in .gitignore

{inputs}
{outputs}
# parameters:                    # passed as --lr=0.1
#   lr: 0.1
# environment:
#   HCCL_CONNECT_TIMEOUT: 1800
{keyless}secrets: [OBS_ACCESS_KEY_ID, OBS_SECRET_ACCESS_KEY]   # variables of your shell that the job needs

{known}log-url: {where}/log/
# retries: 3                     # restarts by the platform
# time-limit: 24h
"""
_INPUTS = "inputs:                        # passed as --data_url=PATH; data_url@env: in the variable data_url"
_OPTIONS = """\
{comment}options:                       # of ma_boot, by their long names
{comment}  path-mapping: {mapping}
"""


@dataclass(frozen=True)
class Answers:
    """Values of a first job file; an empty one becomes an example in a comment."""

    name: str
    command: tuple[str, ...]
    image: str = ""
    nodes: int = 1
    devices_per_node: int = 1
    pool: str = ""
    bucket: str = ""
    mapping: str = ""  # the file of the path mapping
    inputs: Mapping[str, str] = field(default_factory=dict)  # URLs by `NAME` or `NAME@env`
    outputs: Mapping[str, str] = field(default_factory=dict)

    @property
    def where(self) -> str:
        """The directory of the job in OBS."""
        return f"obs://{self.bucket or 'your-bucket'}/{self.name}"


def first_job_file(answers: Answers) -> str:
    """Returns the text of a job file with comments."""
    cards = "" if answers.devices_per_node == 1 else str(answers.devices_per_node)
    options = _OPTIONS.format(
        comment="" if answers.mapping else "# ", mapping=_quoted(answers.mapping or "path_mapping_config.py")
    )
    return _JOB.format(
        name=_quoted(answers.name),
        image=f"image: {_quoted(answers.image)}"
        if answers.image
        else "# image: organization/name:tag   # in SWR",
        command=_quoted(shlex.join(answers.command)),
        options=options,
        nodes=answers.nodes,
        devices=answers.devices_per_node,
        pool=f"pool: {_quoted(answers.pool)}"
        if answers.pool
        else "# pool: pool-a1b2c3d4   # a dedicated pool",
        flavor=f"{'' if answers.pool else '# '}flavor: modelarts.pool.visual.{cards}xlarge",
        keyless="" if answers.mapping else "# ",
        inputs=_channels(_INPUTS, answers.inputs, f"data_url: {answers.where}/data/"),
        outputs=_channels("outputs:", answers.outputs, f"train_url: {answers.where}/output/"),
        known="" if answers.bucket else "# ",
        where=answers.where,
        code=f"obs://{answers.bucket or 'your-bucket'}/code",
    )


def _channels(key: str, urls: Mapping[str, str], example: str) -> str:
    """Returns the lines of inputs or outputs; an example in comments without any."""
    if not urls:
        return f"# {key}\n#   {example}"
    return "\n".join([key, *(f"  {_quoted(name)}: {_quoted(url)}" for name, url in urls.items())])


def first_mapping(answers: Answers) -> str:
    """Returns the text of a path mapping with an input and an output."""
    where = answers.where
    return f"""\
# What each node downloads before the training and uploads after it: docs/path-mapping.md
PATH_MAPPING_CONFIG = {{
    "input": {{
        "/cache/data": "{where}/data/",
    }},
    "output": {{
        "/cache/output": {{"obs": "{where}/output/{{job}}/{{node}}/", "interval": 300}},
    }},
}}
"""


def _quoted(text: str) -> str:
    """Quotes a text for YAML: every JSON string is a YAML string."""
    return text if PLAIN.fullmatch(text) else json.dumps(text, ensure_ascii=False)
