"""Ollama's server log, from 0.1 to today; since 0.30 llama.cpp's own lines stand in it too, for another dialect."""

from unslow.look.logs.ollama.reader import DIALECT, OllamaReader

__all__ = ["DIALECT", "OllamaReader"]
