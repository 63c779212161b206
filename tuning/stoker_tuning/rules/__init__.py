"""Rules: conditions compiled once, evaluated for files, merged by precedence and explained. Standard library only."""
