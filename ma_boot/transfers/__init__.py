"""What a node moves, and how: `path_mapping` in threads beside the phases, told in the journal."""

from ma_boot.transfers.mapping import (
    NodeTransfers as NodeTransfers,
    TransferOptions as TransferOptions,
    configured_store as configured_store,
    inputs_of as inputs_of,
    job_mapping as job_mapping,
    job_transfers as job_transfers,
    load_mapping as load_mapping,
    outputs_of as outputs_of,
    record_routes as record_routes,
    with_shared_outputs as with_shared_outputs,
)
from ma_boot.transfers.shared_outputs import (
    SharedOutputs as SharedOutputs,
    UploadPeers as UploadPeers,
    report_conflicts as report_conflicts,
)
from ma_boot.transfers.transfers import (
    NOTHING_LEFT as NOTHING_LEFT,
    TransferProgress as TransferProgress,
    boot_error as boot_error,
    cancelled_soon as cancelled_soon,
    downloading_inputs as downloading_inputs,
    look_at_outputs as look_at_outputs,
    nothing_at as nothing_at,
    sent_one_by_one as sent_one_by_one,
    told_of_credentials as told_of_credentials,
    upload_outputs as upload_outputs,
    uploading_periodically as uploading_periodically,
)
