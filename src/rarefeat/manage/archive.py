"""Archive the tables of finished trainings, to continue a long run on another machine.

Of each finished cell and block the archive holds the tables, a few kilobytes each, with the times
of their jobs, and not the encoders: Snakemake makes nothing that only a finished table would need.
A table of another config or code than now is refused by its readers.

    python -m rarefeat.manage.archive pack RESULTS ARCHIVE
    snakemake ... --until RULE -- STUDY
    python -m rarefeat.manage.archive unpack ARCHIVE RESULTS STUDY

RULE makes what trainings share: `image_splits` for long-tailed images, `represent_photographs` for
labels of photographs. Unpack each time after it: a table that is older than what it is made from
would be made again.
"""

import argparse
import io
import lzma
import re
import tarfile
import zlib
from pathlib import Path

from rarefeat.core.errors import RarefeatError
from rarefeat.run.cli_helpers import run_main
from rarefeat.storage.sealed_files import atomic_write, verify

BLOCK = r"(?P<block>(?P<study>[^/]+)/(?:[^/]+=[^/]+/)*seeds=\d+-\d+)"
TABLE = re.compile(rf"[^/]+/{BLOCK}\.parquet")
TIMES = re.compile(rf"logs/[^/]+/{BLOCK}\.log\.tsv")


def parse(name: str) -> re.Match | None:
    """Match the path of a table or of times below the results; None for any other."""
    return None if ".." in Path(name).parts else TIMES.fullmatch(name) or TABLE.fullmatch(name)


def finished_files(results: Path) -> dict[str, bytes]:
    """Read the tables of cells and blocks, and their times, by path; RarefeatError if damaged."""
    paths = {path.relative_to(results).as_posix(): path for path in results.rglob("seeds=*")}
    matches = {name: match for name in paths if (match := parse(name))}
    tables = [name for name, match in matches.items() if match.re is TABLE]
    for name in tables:
        verify(paths[name])
    blocks = {matches[name]["block"] for name in tables}
    return {
        name: paths[name].read_bytes()
        for name, match in matches.items()
        if match["block"] in blocks
    }


def read_archive(archive: Path) -> dict[str, bytes]:
    """Read the files of an archive by path.

    None if it is not there, RarefeatError if it is damaged.
    """
    if not archive.exists():
        return {}
    try:
        with tarfile.open(archive) as opened:
            return {
                member.name: opened.extractfile(member).read()
                for member in opened
                if member.isfile()
            }
    except (OSError, EOFError, ValueError, lzma.LZMAError, zlib.error, tarfile.TarError) as error:
        reason = (
            getattr(error, "strerror", None) or "it is no whole archive that `pack` has written"
        )
        raise RarefeatError(f"cannot read {archive}: {reason}") from error


def pack(results: Path, archive: Path) -> tuple[int, list[str]]:
    """Add the finished tables of a folder of results to an archive.

    Returns how many tables it holds, and the files that had other bytes in it. The same files give
    the same bytes.
    """
    before, files = read_archive(archive), finished_files(results)
    replaced = sorted(name for name in files if before.get(name, files[name]) != files[name])
    files = before | files
    with atomic_write(archive) as temporary, tarfile.open(temporary, "w:xz") as opened:
        for name, content in sorted(files.items()):
            member = tarfile.TarInfo(name)
            member.size = len(content)
            opened.addfile(member, io.BytesIO(content))
    return sum(name.endswith(".parquet") for name in files), replaced


def unpack(archive: Path, results: Path, study: str) -> int:
    """Extract the tables of a study, and their times, dated now; return how many tables.

    A file that is there with other bytes stays.

    Parameters
    ----------
    archive : Path
        Archive.
    results : Path
        Folder of results.
    study : str
        Name of the study.

    Raises
    ------
    RarefeatError
        If the archive is not there or damaged, or holds anything but tables and times.
    """
    if not archive.exists():
        raise RarefeatError(f"{archive} is not there")
    count = 0
    for name, content in read_archive(archive).items():
        path, match = results / name, parse(name)
        if not match:
            raise RarefeatError(f"{archive} holds {name!r}, which is no table of a cell")
        if match["study"] != study or (path.exists() and path.read_bytes() != content):
            continue
        with atomic_write(path) as temporary:
            temporary.write_bytes(content)
            if match.re is TABLE:
                try:
                    verify(temporary)
                except RarefeatError:
                    raise RarefeatError(f"{archive}: {name} is damaged") from None
                count += 1
    return count


def main() -> None:
    """Pack or unpack."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(dest="command", required=True)
    packing = commands.add_parser("pack", help="add the finished tables of RESULTS to ARCHIVE")
    packing.add_argument("results", type=Path)
    packing.add_argument("archive", type=Path)
    unpacking = commands.add_parser("unpack", help="put those of a study into RESULTS")
    unpacking.add_argument("archive", type=Path)
    unpacking.add_argument("results", type=Path)
    unpacking.add_argument("study")
    args = parser.parse_args()
    if args.command == "unpack":
        print(
            f"{unpack(args.archive, args.results, args.study)} tables of {args.study} are in"
            f" {args.results}"
        )
        return
    if not args.results.is_dir():
        raise RarefeatError(f"{args.results} is not a folder")
    count, replaced = pack(args.results, args.archive)
    print(
        "\n".join(
            [f"{args.archive} holds {count} tables", *(f"replaced {name}" for name in replaced)]
        )
    )


if __name__ == "__main__":
    run_main(main)
