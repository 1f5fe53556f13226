"""What a program calls: estimates, recordings, the command line."""
