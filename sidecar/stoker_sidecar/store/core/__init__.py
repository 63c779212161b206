"""Decisions about requests and answers of object stores. Pure."""
