"""The command line: one file a command, none of which is imported before it is called."""
