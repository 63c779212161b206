"""Questions to the confined processes that handle tenants' data: the reader and the asker."""
