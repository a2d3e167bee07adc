"""The buckets, objects and uploads that the server keeps, and the errors of operations on them."""

from ma_boot.rehearsal.obs_server.storage.buckets import (
    MAX_KEYS as MAX_KEYS,
    Bucket as Bucket,
    Buckets as Buckets,
    ListingPage as ListingPage,
)
from ma_boot.rehearsal.obs_server.storage.directory_buckets import DirectoryBuckets as DirectoryBuckets
from ma_boot.rehearsal.obs_server.storage.objects import (
    BucketObject as BucketObject,
    Upload as Upload,
    UploadPart as UploadPart,
)
from ma_boot.rehearsal.obs_server.storage.refusals import Refusal as Refusal
from ma_boot.rehearsal.obs_server.storage.uploads import MAX_PARTS as MAX_PARTS, Uploads as Uploads
