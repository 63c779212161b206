"""The node side of Stoker: lists, fetches, serves and mounts datasets, and reports how warm they are."""
