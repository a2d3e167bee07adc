"""The job on ModelArts: its code in OBS, the API, and following it to its end."""

from ma_boot.job_service.code import JobCode, job_code, upload_code

__all__ = ["JobCode", "job_code", "upload_code"]
