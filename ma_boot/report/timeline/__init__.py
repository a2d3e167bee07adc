"""The events of a job's nodes as one `Timeline`: values, from whatever events there are. Pure."""
