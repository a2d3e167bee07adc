# Relative local paths start where ma_boot is started: on ModelArts in /home/ma-user.
PATH_MAPPING_CONFIG = {
    "input": {"data": "obs://ma-boot-example/cifar-10-batches-bin/"},
    "output": {
        # Complete checkpoints only: the files of all ranks. A restarted job, and the next one, resumes from
        # the newest.
        "checkpoints": {
            "obs": "obs://ma-boot-example/checkpoints/",
            "checkpoint": "mindspore",
            "keep": 3,
            "restore": "latest",
            "interval": 10,
        },
    },
}
