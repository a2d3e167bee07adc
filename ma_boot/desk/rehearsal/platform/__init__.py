"""ModelArts as the nodes of a job see it: directories, variables, code, rank table, job form."""
