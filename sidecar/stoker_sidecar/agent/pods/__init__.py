"""The pods of this node that Stoker follows."""
