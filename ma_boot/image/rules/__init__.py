"""What is known about an image, and ModelArts' rules for it: facts in, findings out. Pure."""

from ma_boot.image.rules import boot, contents, variables
from ma_boot.image.rules.boot import this_toolkit as this_toolkit
from ma_boot.image.rules.contents import architecture as architecture
from ma_boot.image.rules.credentials import parsed_search as parsed_search
from ma_boot.image.rules.facts import (
    ARCHITECTURES as ARCHITECTURES,
    GB as GB,
    LABEL as LABEL,
    ImageFacts as ImageFacts,
    Started as Started,
    docker_platform as docker_platform,
    from_metadata as from_metadata,
    parsed_probe as parsed_probe,
)

RULES = (
    *(contents.user, contents.account, contents.group, contents.home, contents.places, contents.shell),
    *(boot.toolkit, boot.stop_signal, boot.entry_point, boot.tried_command),
    *(contents.environments, contents.size, contents.driver, contents.set_id),
    *(variables.protected, variables.of_a_job, variables.everywhere, variables.named_files),
    *(variables.search_paths, variables.in_configuration, variables.in_history, variables.in_files),
)
