"""The demonstration: the memory of an invented support agent, for somebody who wants to look first."""
