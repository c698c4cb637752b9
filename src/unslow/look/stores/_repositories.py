"""Models in folders named after a repository, `publisher/name`, as Hugging Face, LM Studio and llama.cpp name them."""

from unslow.look.stores._grouped import Names, Naming, tag


def names_in(repository: str) -> Naming:
    """Names of models in a repository: itself, or itself with the quant of a file (`org/repo:Q4_K_M`)."""

    def naming(folder: str, stem: str) -> Names:
        long = "/".join(part for part in (repository, folder, stem) if part)
        if not stem:
            return Names(long, long)
        quant = tag(stem)
        return Names(f"{repository}:{quant}" if quant else long, long)

    return naming
