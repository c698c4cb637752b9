"""A folder of raw evidence: a server's log and answers, nvidia-smi's tables, and the timings of a few requests."""

from unslow.look.plain_folder.folder import is_plain_folder, read_plain_folder

__all__ = ["is_plain_folder", "read_plain_folder"]
