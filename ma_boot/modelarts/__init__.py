"""What ModelArts and the machine tell a node, and what they expect of it."""

from ma_boot.modelarts.findings import (
    ERROR as ERROR,
    OK as OK,
    WARNING as WARNING,
    Finding as Finding,
    failed as failed,
)
from ma_boot.modelarts.job import (
    JOB_TOKEN as JOB_TOKEN,
    PLATFORM_GID as PLATFORM_GID,
    PLATFORM_HOME as PLATFORM_HOME,
    PLATFORM_UID as PLATFORM_UID,
    Channel as Channel,
    ChannelContent as ChannelContent,
    JobEnvironment as JobEnvironment,
    instance_name as instance_name,
    job_directory as job_directory,
    read_channels as read_channels,
    read_job as read_job,
)
from ma_boot.modelarts.machine import (
    bound_cores as bound_cores,
    card_addresses as card_addresses,
    look_around as look_around,
    own_super_pod as own_super_pod,
    read_machine as read_machine,
    tool_address as tool_address,
    with_machine as with_machine,
)
from ma_boot.modelarts.network import (
    address_of as address_of,
    check_free as check_free,
    free_port as free_port,
    own_address as own_address,
)
from ma_boot.modelarts.platform_programs import (
    call_post_stop as call_post_stop,
    planned_route as planned_route,
    start_slogd as start_slogd,
)
from ma_boot.modelarts.rank_table_file import wait_until_completed as wait_until_completed
