"""Download of an official CIFAR archive into a folder; a file that is there already is kept."""

import argparse
import hashlib
import http.client
import urllib.request
from collections.abc import Iterator
from pathlib import Path

from rarefeat.errors import RarefeatError
from rarefeat.workflow.files.sealed_files import atomic_write
from rarefeat.workflow.run.cli_helpers import progress, run_main

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
    """Download a file under its own name, unless it is there with the right checksum."""
    path = Path(folder) / address.rpartition("/")[2]
    if path.is_file() and _md5(path) == checksum:
        return path
    with atomic_write(path) as temporary:
        with open(temporary, "wb") as file:
            file.writelines(_download(address, timeout))
        if (digest := _md5(temporary)) != checksum:
            raise RarefeatError(
                f"{address}: expected MD5 {checksum}, got {digest}; try again, or put {path} there"
                " by hand"
            )
    return path


def _md5(path: Path) -> str:
    """Compute the MD5 of a file in hexadecimal."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, lambda: hashlib.md5(usedforsecurity=False)).hexdigest()


def _download(address: str, timeout: float) -> Iterator[bytes]:
    """Yield the content of a URL in pieces, with progress."""
    try:
        with urllib.request.urlopen(address, timeout=timeout) as response:
            total = -(-int(response.headers.get("Content-Length", 0)) // CHUNK)
            label = f"{address.rpartition('/')[2]}, MiB"
            yield from progress(iter(lambda: response.read(CHUNK), b""), total, label)
    except (OSError, http.client.HTTPException) as error:
        raise RarefeatError(
            f"cannot download {address}: {getattr(error, 'reason', error)}; check the network, or"
            " download it by hand"
        ) from error


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("name", choices=list(ARCHIVES), help="data set")
    parser.add_argument("folder", help="folder of the archive, the config's data.folder")
    args = parser.parse_args()
    print(fetch(*ARCHIVES[args.name], args.folder))


if __name__ == "__main__":
    run_main(main)
