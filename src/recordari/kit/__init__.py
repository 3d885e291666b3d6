"""Parts that every room uses: `Resources`, the binding of verbs, and the parts that routes and commands share."""
