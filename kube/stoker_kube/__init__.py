"""The one way to the Kubernetes API server.

A thin asynchronous adapter over raw objects, shared by operator, sidecar and CLI.
"""
