"""What the screens need from the core, behind one face: no widget knows an engine, hub or file."""
