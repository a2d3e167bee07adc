"""The image of a job: built, held against ModelArts' rules, pushed to SWR."""
