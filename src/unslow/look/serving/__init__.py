"""What vLLM, SGLang and TGI have in common: command lines of many flags, a model folder, a log on standard output."""
