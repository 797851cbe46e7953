"""The benchmark of the measuring client: CPU per chunk, and error against the paced server's log, beside others."""
