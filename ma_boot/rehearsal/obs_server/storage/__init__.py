"""The buckets, objects and uploads that the server keeps, and the errors of operations on them."""

from ma_boot.rehearsal.obs_server.storage.buckets import MAX_KEYS, Bucket, Buckets, ListingPage
from ma_boot.rehearsal.obs_server.storage.directory_buckets import DirectoryBuckets
from ma_boot.rehearsal.obs_server.storage.objects import BucketObject, Upload, UploadPart
from ma_boot.rehearsal.obs_server.storage.refusals import Refusal
from ma_boot.rehearsal.obs_server.storage.uploads import MAX_PARTS, Uploads

__all__ = [
    "MAX_KEYS",
    "MAX_PARTS",
    "Bucket",
    "BucketObject",
    "Buckets",
    "DirectoryBuckets",
    "ListingPage",
    "Refusal",
    "Upload",
    "UploadPart",
    "Uploads",
]
