"""What proves the rest: every modelled fault is caught, the gate's error rates, the client against the truth."""
