"""Orders of other libraries' samplers, computed without these libraries."""
