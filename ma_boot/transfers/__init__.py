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
    upload_routes as upload_routes,
    with_shared_outputs as with_shared_outputs,
)
from ma_boot.transfers.progress import (
    TransferProgress as TransferProgress,
    told_of_credentials as told_of_credentials,
)
from ma_boot.transfers.shared_outputs import (
    SharedOutputs as SharedOutputs,
    UploadPeers as UploadPeers,
    report_conflicts as report_conflicts,
)
from ma_boot.transfers.transfers import (
    NOTHING_LEFT as NOTHING_LEFT,
    SetsFirst as SetsFirst,
    boot_error as boot_error,
    cancelled_soon as cancelled_soon,
    downloading_inputs as downloading_inputs,
    look_at_outputs as look_at_outputs,
    nothing_at as nothing_at,
    ordinary_by_mapping as ordinary_by_mapping,
    upload_outputs as upload_outputs,
    uploading_periodically as uploading_periodically,
)
