# Relative local paths start where ma_boot is started: on ModelArts in /home/ma-user.
PATH_MAPPING_CONFIG = {
    "input": {"data": "obs://ma-boot-example/cifar-10-batches-bin/"},
    "output": {"checkpoints": "obs://ma-boot-example/checkpoints/"},
}
