"""What ends an item: decay, retention, forgetting, holds, the erasure of a user."""
