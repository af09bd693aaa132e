"""Sessions in a child process, and the asynchronous client that talks to it."""
