"""`ma_boot doctor`: this container, checked before a job does it; each finding with evidence and a remedy."""

from ma_boot.doctor.examination import cheap_findings, examine
from ma_boot.doctor.findings import Finding, Patient, document, failed, text

__all__ = ["Finding", "Patient", "cheap_findings", "document", "examine", "failed", "text"]
