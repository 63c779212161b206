"""The S3 object store: clients, listings and GETs."""
