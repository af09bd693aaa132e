"""What a GGUF header tells: architecture, vocabulary, compatibility. No inference."""
