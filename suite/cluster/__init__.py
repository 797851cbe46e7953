"""More than one machine: a plan cut into shards, shards joined into one verdict, and boxes of one kind side by side."""
