"""Which sections a context has, what each may cost, and how they are rendered."""
