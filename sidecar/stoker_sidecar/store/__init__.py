"""Object stores: one small interface, S3, and a local folder."""
