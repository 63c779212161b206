"""What a file is to a model, from its name and a bounded part of its bytes. Pure."""
