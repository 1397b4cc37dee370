"""Download an official CIFAR archive into a folder; nothing is done where it is there already."""

import argparse
import hashlib
import http.client
import urllib.request
from collections.abc import Iterator
from pathlib import Path

from rarefeat.core.errors import RarefeatError
from rarefeat.run.cli_helpers import progress, run_main
from rarefeat.storage.sealed_files import atomic_write

ARCHIVES = {
    "cifar10": (
        "https://www.cs.toronto.edu/~kriz/cifar-10-python.tar.gz",
        "c58f30108f718f92721af3b95e74349a",
    ),
    "cifar100": (
        "https://www.cs.toronto.edu/~kriz/cifar-100-python.tar.gz",
        "eb9058c3a382ffc7106e4002c42a8d85",
    ),
}
CHUNK = 2**20


def fetch(address: str, checksum: str, folder: str | Path, timeout: float = 30.0) -> Path:
    """Download a file under its own name, unless it is there with the right checksum.

    Args:
        address: URL. checksum: MD5 in hexadecimal. folder: where the file goes. timeout: seconds that the server may be silent.

    Returns:
        The file.

    Raises:
        RarefeatError: no connection, another checksum, or a folder that cannot be written; nothing is left behind.
    """
    path = Path(folder) / address.rpartition("/")[2]
    if path.is_file() and _checksum(path) == checksum:
        return path
    with atomic_write(path) as temporary:
        with open(temporary, "wb") as file:
            file.writelines(_chunks(address, timeout))
        if (found := _checksum(temporary)) != checksum:
            raise RarefeatError(
                f"{address} has MD5 {found} instead of {checksum}; try again, or put {path} there by hand"
            )
    return path


def _checksum(path: Path) -> str:
    """MD5 in hexadecimal."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, lambda: hashlib.md5(usedforsecurity=False)).hexdigest()


def _chunks(address: str, timeout: float) -> Iterator[bytes]:
    """The content in pieces, with progress."""
    try:
        with urllib.request.urlopen(address, timeout=timeout) as answer:
            total = -(-int(answer.headers.get("Content-Length", 0)) // CHUNK)
            yield from progress(
                iter(lambda: answer.read(CHUNK), b""), total, f"{address.rpartition('/')[2]}, MiB"
            )
    except (OSError, http.client.HTTPException) as error:
        raise RarefeatError(
            f"cannot download {address}: {getattr(error, 'reason', error)}; check the network, or download it by hand"
        ) from error


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("name", choices=list(ARCHIVES), help="data set")
    parser.add_argument("folder", help="where the archive goes, the config's data.folder")
    args = parser.parse_args()
    print(fetch(*ARCHIVES[args.name], args.folder))


if __name__ == "__main__":
    run_main(main)
