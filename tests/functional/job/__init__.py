"""`ma_boot job` beside a stand-in of the API of jobs, which runs them as rehearsals."""
