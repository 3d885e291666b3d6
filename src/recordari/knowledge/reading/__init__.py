"""Reading files: a child process turns PDF, Office, HTML and Markdown into text."""
