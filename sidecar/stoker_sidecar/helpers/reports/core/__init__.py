"""Decisions of the report listener, without sockets and clocks."""
