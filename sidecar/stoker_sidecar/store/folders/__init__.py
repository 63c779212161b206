"""Local folders as an object store."""
