"""What a user's files hold, as a plan tells it to jobs."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from rarefeat.config.images import ImageData
from rarefeat.images.digests import digest_of
from rarefeat.images.formats import READERS, index_files, inputs, refuse_labels

REMEMBERED = ".contents.parquet"


def known(results: str | Path, name: str) -> Path:
    """Where the digests of a study's files are remembered, so that only what is new is read."""
    return Path(results) / f"images/{name}{REMEMBERED}"


def of_images(study: Any, known: Path | None = None) -> dict[str, str]:
    """The digest of the files that the images of a study are read from, by the name that jobs know it by; empty for the digits.

    Raises:
        RarefeatError: files are missing, or lists are refused.
    """
    files = inputs(study.data)
    return {"contents": digest_of(files, known)} if files else {}


def refuse_images(data: ImageData) -> None:
    """RarefeatError where a plan asks for more images of a class than there are; those of an image folder `inputs` counts."""
    if data.n_max and data.format != "image_folder":
        refuse_labels(data, *READERS[data.format](data))


def of_lists(study: Any, seeds: Iterable[int]) -> dict[str, str]:
    """Those of what else seeds read of the user's: index files, and a hierarchy of classes that is a file.

    Raises:
        RarefeatError: files are missing.
    """
    found = {"lists": index_files(study.data, seeds)}
    if isinstance(levels := getattr(study, "levels", None), str):
        found["hierarchy"] = [("levels", f"{study.data.folder}/{levels}")]
    return {name: digest_of(files) for name, files in found.items() if files}
