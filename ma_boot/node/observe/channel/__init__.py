"""How the nodes of a job tell each other what happened, authenticated by a token of the job."""
