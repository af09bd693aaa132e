"""Markdown that grows token by token, rendered to lines; only its open end is rendered again."""
