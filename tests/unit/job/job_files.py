"""A job file with every key."""

EVERY_KEY = """\
name: resnet-2x8
description: two nodes
image: vision/resnet:2026.1
command: train.py --epochs 90 --name "a b"
options:
  rendezvous: torch
  preflight: true
  source: [a.sh, b.sh]
nodes: 2
devices-per-node: 8
pool: pool-a1b2c3d4
flavor: modelarts.pool.visual.8xlarge
code-dir: src
code-url: obs://bucket/jobs/
exclude: ["*.ckpt"]
inputs: {data_url: "obs://bucket/data/"}
outputs: {"train_url@env": "obs://bucket/out/"}
parameters: {lr: 0.10, flag: true, 'n': 3}
environment: {SIZE: 1_000, A: "x y"}
secrets: [OBS_ACCESS_KEY_ID]
log-url: obs://bucket/log/
retries: 3
retry:
  when: lease expired
  never: [bad label, "[0-9]+ classes"]
time-limit: 2d
workspace: "0"
request: {spec: {schedule_policy: {priority: 2}}}
manifest: {spec: {queue: vision}}
"""
