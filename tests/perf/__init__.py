"""``pytest -m perf`` as a person runs it: in a process of its own, against the simulator."""
