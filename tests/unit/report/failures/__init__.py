"""Failures in the output of processes: exceptions, codes in plogs, equal ones, and doubts."""
