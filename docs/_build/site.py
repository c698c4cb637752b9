"""What the site shows beside this folder: the pages that lie at the top of the repository."""

from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

TOP = ("CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """The pages of TOP among the others, their links as seen from here."""
    root = Path(config.config_file_path).parent
    for name in TOP:
        text = (root / name).read_text("utf-8").replace("](docs/", "](")
        files.append(File.generated(config, name.lower(), content=text))
    return files
