"""Downloads: retried, verified, and written to the cache only when complete."""

import hashlib
from functools import partial
from pathlib import Path
from typing import Any

from pigmil._core.errors import DataSetError, import_optional
from pigmil._core.files import atomic_write

RETRIES = 3
_TIMEOUT_SECONDS = 30
_CHUNK_BYTES = 1 << 16
_MAX_BYTES = 1 << 28


def cache_folder() -> Path:
    """Return the folder for downloaded sets: the cache of the user, as the system defines it."""
    pooch = import_optional("pooch", extra="data", purpose="Keeping downloaded data sets")
    return Path(pooch.os_cache("pigmil"))


def fetch_file(address: str, sha256: str, name: str, folder: Path, size: int | None = None) -> Path:
    """Download a file to a folder unless it is already there; return its path.

    The download is written to a temporary file, which replaces the target in one step if the
    checksum is correct. A failed request or a wrong checksum is tried again.

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
    """Write the response to a file, at most ``limit`` bytes.

    Unlike the downloader of pooch it closes the connection of a failed request at once.
    """
    requests = import_optional("requests", extra="data", purpose="Downloading a data set")
    with requests.get(address, stream=True, timeout=_TIMEOUT_SECONDS) as response:
        response.raise_for_status()
        with Path(path).open("wb") as file:
            for chunk in response.iter_content(_CHUNK_BYTES):
                if file.tell() + len(chunk) > limit:
                    raise OSError(f"the response is longer than the expected {limit} bytes")
                file.write(chunk)


def write_atomically(path: Path, content: bytes, sha256: str, name: str) -> None:
    """Write a file atomically, after checking its content."""
    got = hashlib.sha256(content).hexdigest()
    if got != sha256:
        raise DataSetError(
            f"{path.name} of the data set {name!r} has sha256 {got}; expected {sha256}. "
            "Nothing was kept."
        )
    path.parent.mkdir(parents=True, exist_ok=True)
    with atomic_write(path) as temporary:
        temporary.write_bytes(content)
