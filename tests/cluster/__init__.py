"""More than one machine: shards, their merge, Slurm, and boxes side by side."""
