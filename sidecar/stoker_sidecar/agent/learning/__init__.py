"""Rules in force on this node, their trials and history."""
