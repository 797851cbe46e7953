"""Does the suite catch what it is for? The perf scenarios against every fault of the simulator: ``python -m proofs.faults``."""
