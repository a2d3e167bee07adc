"""`ma_boot doctor`: checks this container before a job does; each finding has evidence and a remedy."""

from ma_boot.doctor.container import System as System
from ma_boot.doctor.examination import (
    examine as examine,
    findings_json as findings_json,
    findings_text as findings_text,
    quick_findings as quick_findings,
)
