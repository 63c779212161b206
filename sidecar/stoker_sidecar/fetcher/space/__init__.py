"""Space on the cache disks: quotas, eviction and folders."""
