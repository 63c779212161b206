"""Recovery of a version after a stop: its preparation, the check of doubtful files, and repairs."""
