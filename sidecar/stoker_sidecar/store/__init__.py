"""Object stores: one small interface, S3, a local folder, and an in-memory twin with faults."""
