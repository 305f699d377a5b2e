"""One file for each command; each is imported when it is called."""
