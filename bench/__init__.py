"""Benchmarks of the data path against a local S3 server, the bare disk and s5cmd. Run `python -m bench run`."""
