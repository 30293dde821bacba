"""Downloads: retried, checked, and never left half done in the cache."""

import hashlib
from functools import partial
from pathlib import Path
from typing import Any

from pigmil._core.errors import DataSetError
from pigmil._core.files import atomic_write
from pigmil._core.optional import import_optional

RETRIES = 3
_TIMEOUT_SECONDS = 30
_PIECE_BYTES = 1 << 16
_MAX_BYTES = 1 << 28


def cache_folder() -> Path:
    """Return the folder for downloaded sets: the cache of the user, as the system defines it."""
    pooch = import_optional("pooch", extra="data", purpose="Keeping downloaded data sets")
    return Path(pooch.os_cache("pigmil"))


def fetch_file(address: str, sha256: str, name: str, folder: Path, size: int | None = None) -> Path:
    """Download a file into a folder unless it is there; returns its path.

    The download goes to a temporary file beside the target, which it replaces in one step when
    the checksum is right. A failing answer or a wrong checksum is tried again.

    Parameters
    ----------
    address : str
        Address of the file.
    sha256 : str
        Its expected checksum.
    name : str
        File name in the folder.
    folder : Path
        Created if it does not exist.
    size : int, optional
        Its expected size in bytes, at which a download stops; 256 MiB where it is not known.
    """
    pooch = import_optional("pooch", extra="data", purpose="Downloading a data set")
    folder.mkdir(parents=True, exist_ok=True)
    fetcher = pooch.create(
        path=folder,
        base_url="",
        registry={name: f"sha256:{sha256}"},
        urls={name: address},
        retry_if_failed=RETRIES,
    )
    try:
        return Path(fetcher.fetch(name, downloader=partial(_stream, size or _MAX_BYTES)))
    except (ValueError, OSError) as error:  # requests' errors are OSErrors
        raise DataSetError(f"{address} could not be downloaded: {error}") from error


def _stream(limit: int, address: str, path: str, _: Any) -> None:
    """Write an answer to a file, no more of it than expected.

    Unlike pooch's own function, closes the connection of a refusal at once.
    """
    requests = import_optional("requests", extra="data", purpose="Downloading a data set")
    with requests.get(address, stream=True, timeout=_TIMEOUT_SECONDS) as answer:
        answer.raise_for_status()
        with Path(path).open("wb") as file:
            for piece in answer.iter_content(_PIECE_BYTES):
                if file.tell() + len(piece) > limit:
                    raise OSError(f"the answer is longer than the expected {limit} bytes")
                file.write(piece)


def write_atomically(path: Path, content: bytes, sha256: str, name: str) -> None:
    """Write a file whole or not at all, after checking its content."""
    got = hashlib.sha256(content).hexdigest()
    if got != sha256:
        raise DataSetError(
            f"{path.name} of the data set {name!r} has sha256 {got}; expected {sha256}. "
            "Nothing was kept."
        )
    path.parent.mkdir(parents=True, exist_ok=True)
    with atomic_write(path) as temporary:
        temporary.write_bytes(content)
