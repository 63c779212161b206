"""A cluster of thousands of nodes that are not there: what is real of it, and what is played."""
