"""Decisions about requests to object stores and their responses. Pure."""
