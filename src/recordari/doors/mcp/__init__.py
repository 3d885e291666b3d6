"""The MCP door: memory as tools of a model, over HTTP at `/mcp` and over standard input and output.

The identity comes from the credential (and the headers that narrow it) or, over standard input and output, from how the
process was started: no tool takes a tenant, a user or an agent as an argument. Every request stands for itself, so that any
number of processes can serve one client. This package needs the extra `mcp`.
"""
