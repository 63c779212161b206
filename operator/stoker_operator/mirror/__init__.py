"""The operator's view of the cluster: tables by kind, and the watches that fill them."""
