"""Records of checkpoints in OBS: keys, manifests, documents of attempts, and their removal."""
