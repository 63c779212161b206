"""The HTTP server of the page on this machine, and its reads of the cluster."""
