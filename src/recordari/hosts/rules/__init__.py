"""What differs from host to host, and edits of their files of settings that keep every other byte."""
