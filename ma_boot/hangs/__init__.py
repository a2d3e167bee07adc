"""What the stacks of a job that hangs tell: equal ones are folded, and the suspect is named. Pure."""

from ma_boot.hangs.fold import Fold, folded
from ma_boot.hangs.rank_at_hang import RankAtHang
from ma_boot.hangs.stacks import last_dump, without_head
from ma_boot.hangs.suspect import Suspect, suspect
from ma_boot.hangs.waits import waited_for, waits_text

__all__ = [
    "Fold",
    "RankAtHang",
    "Suspect",
    "folded",
    "last_dump",
    "suspect",
    "waited_for",
    "waits_text",
    "without_head",
]
