"""Result files that people already have, read as a run of this suite: one file per launch, one entry per round."""

from suite.gate.imports.formats import FORMATS, read_results
