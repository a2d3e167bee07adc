"""The rehearsal in containers: the job's own image, on a container engine instead of ModelArts."""
