"""The proof of the gate: the same synthetic campaigns judged by our rule and by the peers' rules."""
