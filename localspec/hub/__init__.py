"""From a name to verified files on disk."""
