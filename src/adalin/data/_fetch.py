"""Downloads, from the authors of a data set or from well-known mirrors; what comes is checked."""

from contextlib import suppress
from pathlib import Path
from urllib.parse import urlsplit

import pooch

from adalin.data._catalogue import entry_of
from adalin.data._dataset import DataError
from adalin.data._load import CheckedFiles, verify
from adalin.data._where import BUNDLED, choose_folder

MIRRORS = {
    "mnist": ["https://ossci-datasets.s3.amazonaws.com/mnist/", "https://storage.googleapis.com/cvdf-datasets/mnist/"],
    "cifar10": ["https://www.cs.toronto.edu/~kriz/"],
    "cifar100": ["https://www.cs.toronto.edu/~kriz/"],
}
"""Base addresses, in the order they are tried in."""


def fetch(name: str, folder: str | Path | None = None) -> CheckedFiles:
    """Download a data set into its folder, unless it is there already, and verify it."""
    entry = entry_of(name)
    path, _ = choose_folder(folder)
    if str(path) == BUNDLED:
        raise DataError(f"{BUNDLED!r} stands for the digits that come with the package; name a folder to fetch into")
    with suppress(DataError):
        report = verify(name, folder)
        if not report.bundled:
            return report
    for download, md5 in entry.downloads.items():
        reasons = _download(name, path / download, md5)
        if reasons:
            files = [Path(other) for other in entry.downloads]
            names, place = ", ".join(file.name for file in files), path / files[0].parent
            by_hand = f"download {names} from {MIRRORS[name][0]} by hand into {place}"
            raise DataError(f"could not fetch {Path(download).name} ({', '.join(reasons)}); {by_hand}")
    return verify(name, folder)


def _download(name: str, target: Path, md5: str) -> list[str]:
    """Get one file from the first mirror that has it; nothing, or why it failed for each."""
    pooch.get_logger().setLevel("WARNING")  # it prints a line per download otherwise
    reasons = []
    for base in MIRRORS[name]:
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            # Pooch downloads to a temporary file in the same folder and renames it when its MD5 is right.
            pooch.retrieve(
                base + target.name,
                known_hash=f"md5:{md5}",
                fname=target.name,
                path=target.parent,
                downloader=pooch.HTTPDownloader(chunk_size=2**20),
            )
        except (OSError, ValueError) as error:  # all errors of requests are OSErrors
            reasons.append(f"{urlsplit(base).hostname}: {_reason(error)}")
        else:
            return []
    return reasons


def _reason(error: Exception) -> str:
    if isinstance(error, ValueError):
        return "sent something else"
    response = getattr(error, "response", None)
    if response is not None:
        return f"HTTP {response.status_code}"
    name = type(error).__name__
    known = {"ConnectionError": "no connection", "ChunkedEncodingError": "the transfer broke off"}
    return getattr(error, "strerror", None) or known.get(name, name)
