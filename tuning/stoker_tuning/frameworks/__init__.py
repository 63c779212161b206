"""Frameworks: the interface of plug-ins, the built-in ones, and what is believed of their answers."""
