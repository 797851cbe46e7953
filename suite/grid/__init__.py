"""The owner's own table: clients by context, with MTP off and on, or of one server that runs; no gate, no baseline."""
