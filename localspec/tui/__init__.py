"""The terminal UI: screens and widgets on Textual, over a headless backend."""
