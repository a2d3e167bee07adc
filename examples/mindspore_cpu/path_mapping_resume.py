# As path_mapping_config.py, with the checkpoints of the run before as a second input.
PATH_MAPPING_CONFIG = {
    'input': {
        'data': 'obs://ma-boot-example/cifar-10-batches-bin/',
        'resume': 'obs://ma-boot-example/checkpoints/',
    },
    'output': {
        'checkpoints': 'obs://ma-boot-example/checkpoints/',
    }
}
