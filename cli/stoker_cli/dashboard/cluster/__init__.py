"""The same page in the cluster, for many users with a token each."""
