"""The environment and the command of the training."""

from ma_boot.environment.command import (
    StartScript as StartScript,
    code_of as code_of,
    find_command as find_command,
    find_file as find_file,
    find_program as find_program,
    no_such_file as no_such_file,
    start_script as start_script,
)
from ma_boot.environment.command_words import TrainingCommand as TrainingCommand, read_command as read_command
from ma_boot.environment.conda import existing_environments as existing_environments
from ma_boot.environment.extras import how_to_install as how_to_install
from ma_boot.environment.patch import applied as applied, difference as difference
from ma_boot.environment.shell import environment_after as environment_after, passable as passable
from ma_boot.environment.software import software_of as software_of
from ma_boot.environment.training_environment import (
    TrainingEnvironment as TrainingEnvironment,
    package_place as package_place,
    python_by as python_by,
    select_environment as select_environment,
)
