"""What a start of the operator costs in a cluster that is whole: its process, against a played API server."""
