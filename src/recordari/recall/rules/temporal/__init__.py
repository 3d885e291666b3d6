"""Time expressions: from words such as "last week" to intervals."""
