"""What ModelArts shows each node of a job and does around it."""
