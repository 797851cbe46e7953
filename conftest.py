"""Root conftest: loads the suite and nothing else."""

pytest_plugins = ["suite.plugin"]
