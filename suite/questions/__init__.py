"""What scenarios ask of a running arm beyond its speed: does it speculate, are its answers right, what changed."""
