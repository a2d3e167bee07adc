"""The texts of the page in English and Chinese."""

from ma_boot.reporting.page.language.translated import hint_in_both, in_both
from ma_boot.reporting.page.language.words import (
    INCIDENTS,
    OUR_CODE,
    OUR_CODES,
    PHASES,
    ROLES,
    TRAINING_CODE,
    Text,
    code_shown,
    phase_name,
    ranges,
    same,
)

__all__ = [
    "INCIDENTS",
    "OUR_CODE",
    "OUR_CODES",
    "PHASES",
    "ROLES",
    "TRAINING_CODE",
    "Text",
    "code_shown",
    "hint_in_both",
    "in_both",
    "phase_name",
    "ranges",
    "same",
]
