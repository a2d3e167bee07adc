"""Runs a transfer: each file whole or not at all, over threads and processes."""

from path_mapping.transfer.engine import Progress
from path_mapping.transfer.periodic import upload_periodically
from path_mapping.transfer.transfer import Transferred, download, listing, upload

__all__ = ["Progress", "Transferred", "download", "listing", "upload", "upload_periodically"]
