"""Which platform runs this node, and what it tells of the job, with its sources. Pure.

    from ma_boot.platforms import Around, place_of, recognised

    problems = []
    place = place_of(recognised(environ), Around(environ, hostname), problems)
    place.nodes, place.sources["nodes"]        # 2, "VC_WORKER_NUM"

Every platform tells a container the same few things by other names. A function for each reads its variables;
nothing here looks at the machine: what is on it comes in `Around`.
"""

from ma_boot.platforms.mindcluster import RESET_FILE as RESET_FILE, Reset as Reset, parse_reset as parse_reset
from ma_boot.platforms.modelarts import (
    TABLE_NAME as TABLE_NAME,
    TABLE_NAMES as TABLE_NAMES,
    TABLE_VARIABLES as TABLE_VARIABLES,
    with_todays_names as with_todays_names,
)
from ma_boot.platforms.place import Around as Around, NodePlace as NodePlace
from ma_boot.platforms.recognise import (
    PLATFORMS as PLATFORMS,
    Recognised as Recognised,
    per_node as per_node,
    place_of as place_of,
    recognised as recognised,
)
