"""The MCP server: memory as tools for a model, over HTTP at `/mcp` and over standard input and output.

The identity comes from the credential (and the headers that narrow it) or, over standard input and output, from the options
of the command. No tool takes a tenant, a user or an agent as an argument. Requests are independent, so that any number of
processes can serve one client. This package needs the extra `mcp`.
"""
