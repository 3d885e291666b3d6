"""The command line: the table of commands, and how they open the memory."""
