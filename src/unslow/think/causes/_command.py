"""What llama-server was started with: what its command line does not ask for, it does not do."""

from unslow.facts.snapshot import Case
from unslow.facts.values import Known


def started_without(case: Case, *flags: str, by_ollama: bool = False) -> bool:
    """Whether a llama.cpp whose whole command line and environment are known has none of these flags.

    A flag stands for all that begin with it, and for the variable of the same name. `by_ollama` counts the llama-server
    that Ollama starts for a model since 0.30, of what no request can set.
    """
    runtime = case.runtime
    if not isinstance(runtime.command, Known) or not isinstance(runtime.environment, Known):
        return False
    is_child = runtime.name.value_or("") == "Ollama" and "llama-server" in "".join(runtime.command.value[:1])
    if not runtime.name.value_or("").endswith("llama.cpp") and not (by_ollama and is_child):
        return False
    variables = tuple(f"LLAMA_ARG_{flag.strip('-').replace('-', '_').upper()}" for flag in flags)
    asked = any(word.startswith(flags) for word in runtime.command.value)
    return not asked and not any(name.startswith(variables) for name in runtime.environment.value)


def serves_one_model(case: Case) -> bool:
    """Whether it is a llama-server with a model of its own that it never puts to sleep, and no router before it."""
    command = case.runtime.command.value_or([])
    own = any(word in ("-m", "--model", "-hf", "--hf-repo") for word in command)
    routed = isinstance(case.runtime.front, Known) and bool(case.runtime.front.value)
    return own and not routed and started_without(case, "--sleep-idle", "--models")
