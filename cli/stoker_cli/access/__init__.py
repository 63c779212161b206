"""Access to the cluster with the rights of the user. Errors become sentences."""
