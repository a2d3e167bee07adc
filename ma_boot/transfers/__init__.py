"""What a node moves, and how: `path_mapping` in threads beside the phases, told in the journal."""

from ma_boot.transfers.mapping import (
    NodeTransfers,
    TransferOptions,
    configured_store,
    inputs_of,
    job_mapping,
    job_transfers,
    load_mapping,
    outputs_of,
    record_routes,
    shared_outputs,
)
from ma_boot.transfers.progress import TransferProgress, told_of_credentials
from ma_boot.transfers.transfers import (
    NOTHING_LEFT,
    boot_error,
    cancelled_soon,
    downloading_inputs,
    look_at_outputs,
    nothing_at,
    sent_one_by_one,
    upload_outputs,
    uploading_periodically,
)

__all__ = [
    "NOTHING_LEFT",
    "NodeTransfers",
    "TransferOptions",
    "TransferProgress",
    "boot_error",
    "cancelled_soon",
    "configured_store",
    "downloading_inputs",
    "inputs_of",
    "job_mapping",
    "job_transfers",
    "load_mapping",
    "look_at_outputs",
    "nothing_at",
    "outputs_of",
    "record_routes",
    "sent_one_by_one",
    "shared_outputs",
    "told_of_credentials",
    "upload_outputs",
    "uploading_periodically",
]
