"""The texts of the page in English and Chinese."""

from ma_boot.reporting.page.language.translated import hint_in_both as hint_in_both, in_both as in_both
from ma_boot.reporting.page.language.words import (
    INCIDENTS as INCIDENTS,
    OUR_CODE as OUR_CODE,
    OUR_CODES as OUR_CODES,
    PHASES as PHASES,
    ROLES as ROLES,
    TRAINING_CODE as TRAINING_CODE,
    Text as Text,
    code_shown as code_shown,
    phase_name as phase_name,
    ranges as ranges,
    same as same,
)
