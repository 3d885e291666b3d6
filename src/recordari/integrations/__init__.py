"""Recordari as the memory of agent frameworks: one module for each, loaded only when it is imported.

Each needs its framework, which `pip install 'recordari[NAME]'` brings: `langgraph`, `openai-agents`, `anthropic`,
`pydantic-ai`, `google-adk`, `llama-index`, `agent-framework`. All work alike over a `Memory` in this process and over a
`Client` of a server; nothing else in Recordari imports them.
"""
