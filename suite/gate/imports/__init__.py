"""Result files that people already have, read as a run of this suite: one file a launch, one entry a round."""

from suite.gate.imports.reading import FORMATS, Imported, read_results

__all__ = ["FORMATS", "Imported", "read_results"]
