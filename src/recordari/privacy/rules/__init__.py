"""How personal data and secrets are recognised, and what a tenant's policy does with them."""
