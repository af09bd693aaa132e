"""Conversations on disk: what was said, with which model, how fast. No faces, no engine."""
