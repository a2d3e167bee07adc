"""Runs on the laptop: rehearsals, job files, the job service, images."""
