"""Recordari as the memory of agent frameworks: one module for each, loaded only when it is imported.

Each needs its framework, which `pip install 'recordari[NAME]'` installs: `langgraph`, `openai-agents`, `anthropic`,
`pydantic-ai`, `google-adk`, `llama-index`, `agent-framework`. All take a `Memory` in this process or a `Client` of a server;
nothing else in Recordari imports them.
"""
