"""What a family of operators needs to be recorded as a GPU runs it."""
