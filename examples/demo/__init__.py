"""The demo of `make demo`: the whole story on a real cluster, told while it happens."""
