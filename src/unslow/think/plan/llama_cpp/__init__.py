"""The best settings of llama.cpp, and of what is built on it: where each tensor goes, and how it is computed."""
