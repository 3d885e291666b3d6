"""What every room is built with: `Resources`, the binding of verbs, and the parts that routes and commands share."""
