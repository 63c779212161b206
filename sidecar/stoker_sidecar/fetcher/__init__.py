"""The fetcher process: the cached files, the wanted files, and the downloads."""
