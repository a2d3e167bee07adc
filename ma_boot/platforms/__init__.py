"""Which platform runs this node, and what it says about the job, with its sources. Pure.

    from ma_boot.platforms import Around, recognised, whereabouts

    found = whereabouts(recognised(environ), Around(environ, hostname))
    found.facts["nodes"]        # Fact(value="2", source="VC_WORKER_NUM")

Every platform tells a container the same few things by other names. A module for each reads its variables;
nothing here looks at the machine: what is on it comes in `Around`.
"""

from ma_boot.platforms.facts import Around as Around, Fact as Fact, Facts as Facts
from ma_boot.platforms.recognise import (
    PLATFORMS as PLATFORMS,
    Recognised as Recognised,
    Whereabouts as Whereabouts,
    recognised as recognised,
    whereabouts as whereabouts,
)
from ma_boot.platforms.reset_file import RESET_FILE as RESET_FILE, Reset as Reset, parse_reset as parse_reset
