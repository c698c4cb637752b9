"""The memory of vLLM's V1 engine: weights by rank, the peak it profiles, and the blocks of cache that are left."""
