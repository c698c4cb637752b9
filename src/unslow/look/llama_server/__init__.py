"""A llama-server as it can be seen from outside: its process, its answers, its log, its model file.

Several runtimes run one: llama.cpp itself, Ollama since 0.30, LM Studio, a router. What they share is here.
"""
