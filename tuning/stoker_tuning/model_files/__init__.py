"""The role of a file in a model, from its name and a bounded part of its bytes. Pure."""
