"""Decisions of the report listener, without sockets and without a clock."""
