"""`ma_boot doctor`: checks this container before a job does; each finding has evidence and a remedy."""

from ma_boot.doctor.examination import examine, findings_json, findings_text, quick_findings
from ma_boot.doctor.system import System

__all__ = ["System", "examine", "findings_json", "findings_text", "quick_findings"]
