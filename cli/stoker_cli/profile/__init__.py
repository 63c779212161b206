"""The command `stoker profile`."""
