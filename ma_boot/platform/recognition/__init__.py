"""Which platform runs this node, and what it tells of the job, with its sources. Pure.

    from ma_boot.platform.recognition.place import Around
    from ma_boot.platform.recognition.recognise import place_of, recognised

    problems = []
    place = place_of(recognised(environ), Around(environ, hostname), problems)
    place.nodes, place.sources["nodes"]        # 2, "VC_WORKER_NUM"

Every platform tells a container the same few things by other names. A function for each reads its variables;
nothing here looks at the machine: what is on it comes in `Around`.
"""
