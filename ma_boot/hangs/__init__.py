"""What the stacks of a job that hangs tell: equal ones are folded, and the suspect is named. Pure."""

from ma_boot.hangs.fold import Fold as Fold, folded as folded
from ma_boot.hangs.rank_at_hang import RankAtHang as RankAtHang
from ma_boot.hangs.stacks import last_dump as last_dump, without_head as without_head
from ma_boot.hangs.suspect import Suspect as Suspect, suspect as suspect
from ma_boot.hangs.waits import waited_for as waited_for, waits_text as waits_text
