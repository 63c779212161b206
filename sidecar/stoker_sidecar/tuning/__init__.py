"""Turns recommendations into knobs of the fetcher and of mounts: a library for both agents."""
