"""Result files that people already have, read as a run of this suite: one file per launch, one entry per round."""

from suite.gate.imports.reading import FORMATS, read_results
