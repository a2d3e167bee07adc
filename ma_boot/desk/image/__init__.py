"""The image of a job: builds it, checks it against ModelArts' rules, pushes it to SWR."""
