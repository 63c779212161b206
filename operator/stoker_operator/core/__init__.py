"""Decisions as plain functions: no kopf, no client, no await, no clock."""
