"""Facts: extracted from messages, judged against each other, corrected by people."""
