"""The image of a job: builds it, checks it against ModelArts' rules, pushes it to SWR."""

from ma_boot.image.build import build_arguments, build_image, check_size
from ma_boot.image.check import CheckedImage, check_image, findings_json, findings_text, reject_errors
from ma_boot.image.container_engine import EngineRefused, engine, image_attributes
from ma_boot.image.probe import run_inside
from ma_boot.image.push import configured_login, push_image
from ma_boot.image.rules import ARCHITECTURES, LABEL, docker_platform, this_toolkit
from ma_boot.image.swr import job_form, push_login, push_target

__all__ = [
    "ARCHITECTURES",
    "LABEL",
    "CheckedImage",
    "EngineRefused",
    "build_arguments",
    "build_image",
    "check_image",
    "check_size",
    "configured_login",
    "docker_platform",
    "engine",
    "findings_json",
    "findings_text",
    "image_attributes",
    "job_form",
    "push_image",
    "push_login",
    "push_target",
    "reject_errors",
    "run_inside",
    "this_toolkit",
]
