"""Which build of a row brought a loss: the search, with the gate as its judge."""
