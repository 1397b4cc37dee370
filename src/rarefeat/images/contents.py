"""What a user's files hold, as a plan tells it to jobs and as verification asks again."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from rarefeat.config.images import ImageData
from rarefeat.core.errors import RarefeatError
from rarefeat.images.digests import digest_of
from rarefeat.images.formats import READERS, index_files, inputs, refuse_labels

TOLD = {"contents": "the images", "lists": "the index files", "hierarchy": "the classes' file"}
"""What jobs are told of a user's files."""
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


def changed_files(found: dict[str, Any], studies: Mapping[str, Any], results: Path) -> str:
    """Which of a user's files hold something else than a job was told of them, for a message; empty where none does.

    Args:
        found: what a file says of the job that made it.
        studies: those of the config, by name.
    """
    told = {name: value for name, value in found.get("config", {}).items() if name in TOLD}
    if not told or (study := studies.get(found.get("study"))) is None:
        return ""
    first, _, last = found.get("seeds", "1-0").partition("-")
    try:
        now = of_images(study, known(results, found["study"])) | of_lists(study, range(int(first), int(last) + 1))
    except RarefeatError as error:
        return str(error)
    others = [TOLD[name] for name, value in told.items() if now.get(name) != value]
    return f"{' and '.join(others)} have changed since" if others else ""
