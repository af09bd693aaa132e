"""Calls of functions: what models write, and what clients read."""
