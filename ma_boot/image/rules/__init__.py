"""What is known about an image, and ModelArts' rules for it: facts in, findings out. Pure."""

from ma_boot.image.rules.boot import this_toolkit
from ma_boot.image.rules.facts import (
    ARCHITECTURES,
    GB,
    LABEL,
    ImageFacts,
    Started,
    docker_platform,
    from_metadata,
    parsed_probe,
)
from ma_boot.image.rules.judgement import judged

__all__ = [
    "ARCHITECTURES",
    "GB",
    "LABEL",
    "ImageFacts",
    "Started",
    "docker_platform",
    "from_metadata",
    "judged",
    "parsed_probe",
    "this_toolkit",
]
