"""Frameworks: the interface of plug-ins, the built-in ones, and the validation of their answers."""
