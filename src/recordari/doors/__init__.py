"""The doors: REST, MCP and the command line. They parse, call one verb and render."""
