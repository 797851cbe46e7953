"""What the owner of a box does before and beside any gate."""
