"""The only place with SQL: it saves and loads, and never decides."""
