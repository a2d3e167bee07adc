# A base for an image that trains with MindSpore on the CPU: slim images lack the OpenMP library that it loads.
ARG BASE_IMAGE=python:3.11-slim-bookworm
FROM ${BASE_IMAGE}
# This is not the image of a job, whose user comes last. The newest libgomp1 of the distribution is the right one.
# hadolint ignore=DL3002
USER 0
# hadolint ignore=DL3008
RUN apt-get update && apt-get install --yes --no-install-recommends libgomp1 && rm -rf /var/lib/apt/lists/*
