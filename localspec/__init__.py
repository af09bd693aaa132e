"""localspec: local GGUF models that answer faster, by speculative decoding."""

__version__ = "0.1.0"
