# The checkpoints of the previous run are a second input.
PATH_MAPPING_CONFIG = {
    "input": {
        "data": "obs://ma-boot-example/cifar-10-batches-bin/",
        "resume": "obs://ma-boot-example/checkpoints/",
    },
    "output": {"checkpoints": "obs://ma-boot-example/checkpoints/"},
}
