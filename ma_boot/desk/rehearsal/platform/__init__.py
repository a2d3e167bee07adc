"""What ModelArts provides to the nodes of a job: directories, variables, code, rank table, the job form."""
