"""Keep what finished trainings have shown in one small archive, so that a run of many hours continues on another machine.

Of each finished cell and block it holds the tables, a few kilobytes each, with the benchmarks of their jobs, which say what
they took, and not the encoders: Snakemake makes nothing that only a finished table would need. Each table says what it is, and
is refused where the config or the code of now would make another.

    python -m rarefeat.manage.kept pack RESULTS ARCHIVE
    snakemake ... --until RULE -- STUDY
    python -m rarefeat.manage.kept unpack ARCHIVE RESULTS STUDY

RULE makes what trainings share: `image_splits` for long-tailed images, `represent_photographs` for labels of photographs.
Unpack each time after it: a table that is older than what it is made from would be made anew.
"""

import argparse
import io
import lzma
import tarfile
import zlib
from pathlib import Path

from rarefeat.core.errors import RarefeatError
from rarefeat.manage.provenance import INTERMEDIATE
from rarefeat.run.command import run
from rarefeat.run.results_folder import within
from rarefeat.storage.files import replacing, verify

LOGS, BENCHMARK = "logs", ".log.tsv"


def finished(results: Path) -> dict[str, bytes]:
    """The tables of cells and blocks in a folder of results, and their benchmarks, by path.

    Raises:
        RarefeatError: for a table that is damaged.
    """
    found, blocks = {}, set()
    for path in within(results):
        if path.suffix == ".parquet" and INTERMEDIATE.fullmatch(path.name):
            verify(path)
            name = path.relative_to(results).as_posix()
            found[name] = path.read_bytes()
            blocks.add(block_of(name))
    for path in (results / LOGS).rglob(f"seeds=*{BENCHMARK}"):
        name = path.relative_to(results).as_posix()
        if block_of(name) in blocks:
            found[name] = path.read_bytes()
    return found


def block_of(name: str) -> tuple[str, ...]:
    """Study, axes and seeds of a table `STAGE/STUDY/...` or a benchmark `logs/RULE/STUDY/...`; empty for what is neither."""
    *folders, last = Path(name).parts
    if folders[:1] == [LOGS] and last.endswith(BENCHMARK):
        folders, last = folders[1:], last.removesuffix(BENCHMARK) + ".parquet"
    return (*folders[1:], last) if len(folders) > 1 and INTERMEDIATE.fullmatch(last) else ()


def contents(archive: Path) -> dict[str, bytes]:
    """What an archive holds, by path; nothing where there is none.

    Raises:
        RarefeatError: for a file that is no such archive.
    """
    if not archive.exists():
        return {}
    try:
        with tarfile.open(archive) as opened:
            return {member.name: opened.extractfile(member).read() for member in opened if member.isfile()}
    except (OSError, EOFError, ValueError, lzma.LZMAError, zlib.error, tarfile.TarError) as error:
        reason = getattr(error, "strerror", None) or "it is no whole archive that `pack` has written"
        raise RarefeatError(f"cannot read {archive}: {reason}") from error


def pack(results: Path, archive: Path) -> int:
    """Add the finished tables of a folder of results to an archive; how many it holds. The same files give the same bytes."""
    files = contents(archive) | finished(results)
    with replacing(archive) as temporary, tarfile.open(temporary, "w:xz") as opened:
        for name, content in sorted(files.items()):
            member = tarfile.TarInfo(name)
            member.size = len(content)
            opened.addfile(member, io.BytesIO(content))
    return sum(name.endswith(".parquet") for name in files)


def unpack(archive: Path, results: Path, study: str) -> int:
    """Put the tables of a study, and their benchmarks, into a folder of results, dated now; how many tables.

    One that is there and differs stays.

    Raises:
        RarefeatError: for an archive that is not there or damaged, or names files outside of the folder.
    """
    if not archive.exists():
        raise RarefeatError(f"{archive} is not there")
    count = 0
    for name, content in contents(archive).items():
        path, block = results / name, block_of(name)
        if not block or not path.resolve().is_relative_to(results.resolve()):
            raise RarefeatError(f"{archive} holds {name!r}, which is no table of a cell")
        if block[0] != study or (path.exists() and path.read_bytes() != content):
            continue
        with replacing(path) as temporary:
            temporary.write_bytes(content)
            try:
                if path.suffix == ".parquet":
                    verify(temporary)
            except RarefeatError:
                raise RarefeatError(f"{archive}: {name} is damaged") from None
        count += path.suffix == ".parquet"
    return count


def main() -> None:
    """Pack or unpack."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    one = commands.add_parser("pack", help="add the finished tables of RESULTS to ARCHIVE")
    one.add_argument("results", type=Path)
    one.add_argument("archive", type=Path)
    two = commands.add_parser("unpack", help="put those of a study into RESULTS")
    two.add_argument("archive", type=Path)
    two.add_argument("results", type=Path)
    two.add_argument("study")
    args = parser.parse_args()
    if args.command == "pack":
        if not args.results.is_dir():
            raise RarefeatError(f"{args.results} is no folder")
        print(f"{args.archive} holds {pack(args.results, args.archive)} tables")
    else:
        print(f"{unpack(args.archive, args.results, args.study)} tables of {args.study} are in {args.results}")


if __name__ == "__main__":
    run(main)
