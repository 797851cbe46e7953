"""What is true of a server, its installation, its checkpoint and its GPUs; never what was asked for."""
