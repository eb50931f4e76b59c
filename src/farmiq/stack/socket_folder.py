"""Where Unix sockets go. Their path may have 107 bytes at most, and homes lie deeper than that."""

import hashlib
import os
import tempfile
from pathlib import Path

from farmiq.stack.errors import StackError

PATH_BYTES_MAX = 107  # sun_path holds 108 with its final zero


class SocketFolderTaken(StackError):
    """The home's path is too long for sockets, so they go to a short folder of a fixed name. Somebody else made one first."""


def socket_folder(preferred: Path, longest_name: str) -> Path:
    """`preferred` when sockets with names up to `longest_name` fit there, else a short folder that stands for it alone."""
    if len(os.fsencode(preferred / longest_name)) <= PATH_BYTES_MAX:
        return preferred
    digest = hashlib.sha256(os.fsencode(preferred)).hexdigest()[:12]
    return Path(tempfile.gettempdir()) / f"farmiq-{os.geteuid()}-{digest}"


def make_socket_folder(folder: Path, allowed_owners: set[int]) -> None:
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    status = folder.lstat()
    if folder.is_symlink() or status.st_uid not in allowed_owners:
        fix = f"remove {folder}, or set TMPDIR to a folder of your own"
        raise SocketFolderTaken(f"{folder} belongs to somebody else", fix=fix)
