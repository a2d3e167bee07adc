"""A stand-in for ModelArts' API of training jobs, on loopback: not the service, only what its documents say.

It verifies signatures with the SDK's own signer, validates bodies, keeps jobs, pages logs by lines, injects faults, and
runs each job as a rehearsal.
"""
