"""What this program keeps of its own on a machine: benchmarks and calibrations, in the user's data folder."""

import os
import sys
from collections.abc import Mapping
from pathlib import Path


def data_folder(
    environment: Mapping[str, str] = os.environ, platform: str = sys.platform, home: Path | None = None
) -> Path:
    """This program's data: UNSLOW_DATA_DIR, or the platform's place for it."""
    home = home or Path.home()
    if chosen := environment.get("UNSLOW_DATA_DIR"):
        return Path(chosen)
    if platform == "darwin":
        return home / "Library" / "Application Support" / "unslow"
    if platform == "win32":
        return Path(environment.get("LOCALAPPDATA") or home / "AppData" / "Local") / "unslow"
    return Path(environment.get("XDG_DATA_HOME") or home / ".local" / "share") / "unslow"
