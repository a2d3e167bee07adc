"""Platform of this node, and the node's place in the job, with the source of each value. Pure.

    from ma_boot.platform.recognition.place import Surroundings
    from ma_boot.platform.recognition.recognise import find_place, recognise

    problems = []
    place = find_place(recognise(environ), Surroundings(environ, hostname), problems)
    place.nodes, place.sources["nodes"]        # 2, "VC_WORKER_NUM"

Every platform has other names for the same few values. Each has a function that reads its variables; the
facts about the machine are given (`Surroundings`).
"""
