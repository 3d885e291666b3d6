"""Personal data and secrets: found and masked before anything is kept; protected sources that memory must not copy."""
