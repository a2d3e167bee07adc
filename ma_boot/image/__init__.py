"""The image of a job: builds it, checks it against ModelArts' rules, pushes it to SWR."""

from ma_boot.image.build import (
    build_arguments as build_arguments,
    build_image as build_image,
    check_size as check_size,
)
from ma_boot.image.check import (
    check_image as check_image,
    findings_json as findings_json,
    findings_text as findings_text,
    reject_errors as reject_errors,
    run_inside as run_inside,
)
from ma_boot.image.container_engine import (
    EngineRefused as EngineRefused,
    engine as engine,
    image_attributes as image_attributes,
)
from ma_boot.image.push import configured_login as configured_login, push_image as push_image
from ma_boot.image.rules import (
    ARCHITECTURES as ARCHITECTURES,
    LABEL as LABEL,
    docker_platform as docker_platform,
    this_toolkit as this_toolkit,
)
from ma_boot.image.swr import job_form as job_form, push_login as push_login, push_target as push_target
