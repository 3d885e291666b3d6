"""The MCP door: memory as tools of a model, over HTTP at `/mcp` and over standard input and output.

Who asks comes from the credential (and the headers that narrow it) or, over standard input and output, from how
the process was started: no tool takes a tenant, a user or an agent as an argument. Every request stands for itself,
so that any number of processes can serve one client. This package needs the extra `mcp`.

`tools.py` has what a tool is and the tools of the default profile, `profiles.py` the other profiles, `resources.py` what
can be read by address, `server.py` the two ways to serve them.
"""
