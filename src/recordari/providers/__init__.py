"""Outside help (embedding, reranking, LLM, cache), each with an offline answer."""
