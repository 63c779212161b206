"""The command line of `stoker mount` and `stoker cache drop`, parsed and checked."""
