"""When a session ends, what its window holds, how messages are summarised, what state may hold."""
