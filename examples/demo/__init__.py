"""The demo of `make demo`: the full workflow on a real cluster, with explanations as it runs."""
