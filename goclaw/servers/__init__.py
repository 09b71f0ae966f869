"""Ways in that the daemon listens on: the Unix socket for clients of the same user, and HTTP for everything else."""
