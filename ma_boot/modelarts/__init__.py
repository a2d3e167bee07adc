"""What ModelArts and the machine tell a node, and what they expect of it."""

from ma_boot.modelarts.channels import (
    Channel as Channel,
    ChannelContent as ChannelContent,
    read_channels as read_channels,
)
from ma_boot.modelarts.cpu_affinity import bound_cores as bound_cores, read_machine as read_machine
from ma_boot.modelarts.dns import address_of as address_of, own_address as own_address
from ma_boot.modelarts.driver import call_post_stop as call_post_stop, start_slogd as start_slogd
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
    JobEnvironment as JobEnvironment,
    instance_name as instance_name,
    job_directory as job_directory,
    read_job as read_job,
)
from ma_boot.modelarts.own_cards import (
    card_addresses as card_addresses,
    own_super_pod as own_super_pod,
    tool_address as tool_address,
)
from ma_boot.modelarts.ports import check_free as check_free, free_port as free_port
from ma_boot.modelarts.rank_table_file import wait_until_completed as wait_until_completed
from ma_boot.modelarts.route_plan import planned_route as planned_route
from ma_boot.modelarts.this_container import look_around as look_around, with_machine as with_machine
