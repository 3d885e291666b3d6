"""Pure decisions: no I/O, no clock, no randomness; those are arguments."""
