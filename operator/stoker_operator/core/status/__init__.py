"""The status of Datasets, rolled up from nodes. Pure."""
