"""Requests to the API server: addresses, credentials, connections and errors."""
