"""Models: embedding, reranking and language models, local ones by hash and remote ones over HTTP."""
