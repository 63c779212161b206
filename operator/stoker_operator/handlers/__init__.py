"""Handlers that kopf calls, in kopf's own thread; nothing else lives here."""
