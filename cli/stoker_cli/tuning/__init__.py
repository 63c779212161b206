"""The command `stoker tuning`."""
