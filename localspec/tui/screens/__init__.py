"""One screen a file. Screens call the backend in workers; handlers own what is shown."""
