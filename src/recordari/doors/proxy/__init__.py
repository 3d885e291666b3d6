"""Memory in front of a model: an address that speaks as OpenAI and Anthropic do, and passes requests on to them."""
