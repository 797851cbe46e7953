"""Every build under its true name."""
