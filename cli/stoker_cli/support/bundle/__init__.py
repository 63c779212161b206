"""The archive of `stoker support-bundle`, without secrets."""
