"""The memory of llama.cpp: its placement, its cache, and its compute graph as its own allocator lays it out."""
