"""Import and hash user-defined code, by whole files.

A user's file is one that belongs neither to Python nor to an installed package. The hash of a
module is of the contents of
    - all user's modules whose source runs when it is imported, whatever was imported before;
    - modules beside them or in the working directory that these name in imports within functions;
    - files that these open at import, and those that they declare, as in `reads = ["a.csv"]`.

Python's cached bytecode of a user's module is not used, so that the text that is hashed is the text
that runs. `opened_files` notes what a function opens while it runs, which no hash can foresee.
"""

import ast
import contextlib
import hashlib
import importlib
import importlib.util
import os
import sys
import time
from collections.abc import Iterable, Iterator
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import CodeType, FrameType, ModuleType
from typing import Any, NamedTuple

from rarefeat.errors import RarefeatError

PACKAGE = str(Path(__file__).parents[1])
PACKAGE_FOLDERS = ("/site-packages/", "/dist-packages/")
CLOCK_TICK_NS = 2 * 10**9
"""A file that was written so recently may change again and keep its size and time."""


class UserModule(NamedTuple):
    """A user's module, as its files were when it was imported."""

    module: ModuleType
    signatures: dict[Path, tuple]
    """Signature of each file in the hash, and of absent files that an import in them would find."""
    hash: str


IMPORTED: dict[tuple, UserModule] = {}
"""Modules by their name and the folders in which they and their imports are looked for."""
FOLDERS: list[str] = []
"""Folders of the config files of the project in use, the last file's first."""
SOURCES: dict[str, tuple[Path, bytes]] = {}
"""File and text of each user's module that was imported last, by the module's name."""
OPENED: list[set[Path]] = []
"""Files that user's code in progress has opened (`opened_files`)."""


def search_folders() -> list[str]:
    """List where a user's module is looked for: beside the configs, then the working directory."""
    return [*dict.fromkeys(os.path.abspath(folder) for folder in (*FOLDERS, ""))]


def is_user_file(path: str | Path) -> bool:
    """Return whether a file belongs neither to Python, nor to an installed package, nor to us."""
    path = os.path.abspath(path)
    works = [os.path.join(folder, "") for folder in search_folders()]
    if any(folder in path for folder in PACKAGE_FOLDERS):
        return False
    roots = (PACKAGE, sys.prefix, sys.base_prefix, os.path.dirname(os.__file__))
    roots = tuple(os.path.join(root, "") for root in (*roots, "/proc", "/sys", "/dev"))
    # A working directory may lie below a prefix, as /usr/local/work does.
    return all(
        any(work.startswith(root) and path.startswith(work) for work in works)
        for root in roots
        if path.startswith(root)
    )


def read_code(loader: SourceFileLoader, name: str) -> CodeType | None:
    """Read the code of a module; of a user's module from its source, and never from a cache."""
    if not is_user_file(loader.path):
        return super(SourceFileLoader, loader).get_code(name)
    source = loader.get_data(loader.path)
    SOURCES[name] = Path(loader.path), source
    for files in OPENED:
        files.add(Path(loader.path))
    return loader.source_to_code(source, loader.path)


def install_hooks() -> None:
    """Have Python read a user's modules by `read_code`, and call `note_open`, from now on."""
    if SourceFileLoader.get_code is not read_code:
        SourceFileLoader.get_code = read_code  # type: ignore[method-assign, assignment]
        sys.addaudithook(note_open)


def note_open(event: str, arguments: tuple) -> None:
    """Note a user's file that is opened to be read, an audit hook.

    What an installed package opens while it is first imported does not count, since it depends on
    earlier imports; nor do files of threads that run none of the user's code.
    """
    if event != "open" or not OPENED:
        return
    name, mode, flags = arguments
    is_read = "r" in mode or "+" in mode if mode else flags & os.O_ACCMODE != os.O_WRONLY
    if not is_read or not isinstance(name, str | bytes | os.PathLike):
        return
    path = Path(os.path.abspath(os.fsdecode(name)))
    if not is_user_file(path):
        return
    if path.suffix == ".pyc":
        path = Path(importlib.util.source_from_cache(str(path)))
    frame = sys._getframe(1)
    while frame:
        file, function = frame.f_code.co_filename, frame.f_code.co_name
        # Python's own importing, and texts that are executed, are of no file.
        if not file.startswith("<"):
            if is_user_file(file):
                OPENED[-1].add(path)
            if is_user_file(file) or function == "<module>":
                return
        frame = frame.f_back


@contextlib.contextmanager
def opened_files() -> Iterator[set[Path]]:
    """Collect the files that user's code opens meanwhile to read them, its modules among them."""
    install_hooks()
    OPENED.append(set())
    try:
        yield OPENED[-1]
    finally:
        OPENED.pop()


@contextlib.contextmanager
def called_files() -> Iterator[set[Path]]:
    """Collect the user's files whose functions are called meanwhile; the running script is none."""
    names: dict[str, str] = {}
    files: set[Path] = set()
    before = sys.getprofile()

    def note(frame: FrameType, event: str, argument: Any) -> None:
        names.setdefault(frame.f_code.co_filename, frame.f_globals.get("__name__", ""))

    sys.setprofile(note)
    try:
        yield files
    finally:
        sys.setprofile(before)
        # Code of a notebook has a file that does not exist, and one of a gallery has no `__file__`.
        modules = (name for name, module in names.items() if module != "__main__")
        paths = (Path(name) for name in modules if is_user_file(name))
        files.update(path for path in paths if path.is_file())


def hashed_files(name: str) -> set[Path]:
    """Return the files in the hash of a module that was imported last; none for another one."""
    entry = IMPORTED.get((name, *import_folders(name)))
    return set(entry.signatures) if entry else set()


def is_user_module(name: str) -> bool:
    """Return whether an imported module is the user's; the running script is not."""
    module = sys.modules[name]
    path = getattr(module, "__file__", None) or next(iter(getattr(module, "__path__", ())), "")
    # A few modules of torch say a relative path.
    is_user = os.path.isabs(str(path)) and is_user_file(path)
    return (is_user or name in SOURCES) and name != "__main__"


def import_afresh(name: str) -> tuple[ModuleType, dict[Path, bytes], list[Path]]:
    """Import a module from its source.

    Other modules of the user's stay imported as they were, and the ones that this imports are new.
    """
    folders = import_folders(name)
    sys.path[:] = [*folders, *(path for path in sys.path if path not in folders)]
    importlib.invalidate_caches()
    user_names = [key for key in [*sys.modules] if is_user_module(key)]
    earlier = {key: sys.modules.pop(key) for key in user_names}
    contents: dict[Path, bytes] = {}
    try:
        with opened_files() as opened:
            module = importlib.import_module(name)
        # Modules that no source loader has read, such as compiled ones, count by their files.
        modules = [sys.modules[key] for key in [*sys.modules] if is_user_module(key)]
        opened |= {Path(file) for item in modules if (file := getattr(item, "__file__", None))}
        opened.add(module_file(name))
        texts = {path: text for path, text in SOURCES.values() if path in opened}
        files, absent = list_files(sorted(opened), folders)
        check_names(files)
        contents = {path: path.read_bytes() for path in files} | texts
    except RarefeatError:
        raise
    except Exception as error:
        reason = f"{type(error).__name__}: {next(iter(str(error).splitlines()), '')}"
        raise RarefeatError(f"{module_file(name)} cannot be imported: {reason}") from error
    finally:
        for key, before in earlier.items():
            # Modules of one package stay together, and a later import in a function is new, too.
            is_listed = Path(getattr(before, "__file__", None) or "") in contents
            if key.partition(".")[0] not in sys.modules and not is_listed:
                sys.modules[key] = before
    return module, contents, absent


def check_names(files: Iterable[Path]) -> None:
    """Raise RarefeatError for a module with the name of one of Python's or of a package."""
    for path in files:
        is_package = path.name == "__init__.py"
        name, folder = (
            (path.parent.name, path.parents[1]) if is_package else (path.stem, path.parent)
        )
        is_taken = name in sys.modules and not is_user_module(name)
        is_taken = (is_taken or name in sys.stdlib_module_names) and path.suffix == ".py"
        if is_taken and str(folder) in search_folders():
            raise RarefeatError(f"{path}: an installed module is called {name}, too; rename it")


def list_files(files: Iterable[Path], folders: list[str]) -> tuple[list[Path], list[Path]]:
    """List files with those that modules among them import or declare, and which are absent."""
    queue: list[Path] = []
    absent: list[Path] = []
    for path in files:
        (queue if path.is_file() else absent).append(path)
    for path in queue:
        tree = ast.parse(path.read_bytes()) if path.suffix == ".py" else ast.Module([], [])
        imported: list[Path] = []
        for node in ast.walk(tree):
            if isinstance(node, ast.Import):
                names, roots = [item.name for item in node.names], folders
            elif isinstance(node, ast.ImportFrom):
                roots = [str(path.parents[node.level - 1])] if node.level else folders
                names = [".".join(filter(None, [node.module, item.name])) for item in node.names]
            else:
                continue
            for root in roots:
                imported += [file for name in names for file in module_files(Path(root), name)]
        present = [file for file in imported if file.is_file() and is_user_file(file)]
        absent += [file for file in imported if not file.is_file()]
        present += declared_files(path, tree, folders)
        queue += [file for file in dict.fromkeys(present) if file not in queue]
    return queue, absent


def module_files(folder: Path, name: str) -> Iterator[Path]:
    """List the files that a module, and the packages around it, may have below a folder."""
    for component in name.split("."):
        folder = folder / component
        yield from (folder.with_suffix(".py"), folder / "__init__.py")


def declared_files(path: Path, tree: ast.Module, folders: list[str]) -> list[Path]:
    """List the files that a module declares as `reads`, of which all must exist."""
    files = []
    for node in tree.body:
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", node)]
        value = getattr(node, "value", None)
        if "reads" not in [getattr(target, "id", "") for target in targets] or value is None:
            continue
        names = [getattr(item, "value", None) for item in getattr(value, "elts", [None])]
        if not all(isinstance(name, str) for name in names):
            raise RarefeatError(
                f"{path}: reads: must be a list of file names, got {ast.unparse(value)}"
            )
        for name in names:
            found = [file for folder in folders if (file := Path(folder, name)).is_file()]
            if not found:
                places = " or ".join(folders)
                raise RarefeatError(f"{path}: reads: there is no file {name} in {places}")
            files += found
    return files


def module_file(name: str) -> Path:
    """Return the file of a module of the user's, the first that is found."""
    files = [Path(folder, *name.split(".")).with_suffix(".py") for folder in search_folders()]
    return next((path for path in files if path.is_file()), files[-1])


def import_folders(name: str) -> list[str]:
    """List where the imports of a module are looked for: its own folder, then all others."""
    own = str(module_file(name).parents[name.count(".")])
    return [*dict.fromkeys([own, *search_folders()])]


def signature(path: Path) -> tuple:
    """Return what differs after an edit of a file: size and times, or contents soon after one."""
    try:
        about = path.stat()
        is_recent = time.time_ns() - max(about.st_mtime_ns, about.st_ctime_ns) < CLOCK_TICK_NS
        contents = path.read_bytes() if is_recent else b""
    except OSError:
        return ()
    return about.st_size, about.st_mtime_ns, about.st_ctime_ns, contents


def load_user_module(name: str) -> UserModule:
    """Import a module of the user's, anew if a file of its hash was edited since the last time."""
    folders = import_folders(name)
    key = name, *folders
    if key in IMPORTED:
        signatures = IMPORTED[key].signatures
        if all(signature(path) == before for path, before in signatures.items()):
            return IMPORTED[key]
    module, contents, absent = import_afresh(name)
    names = {os.path.relpath(path, folders[0]): text for path, text in contents.items()}
    texts = [text for name, content in sorted(names.items()) for text in (name.encode(), content)]
    digests = [hashlib.sha256(text).digest() for text in texts]
    value = hashlib.sha256(b"".join(digests)).hexdigest()[:16]
    signatures = {path: signature(path) for path in (*contents, *absent)}
    IMPORTED[key] = UserModule(module, signatures, value)
    return IMPORTED[key]


def hash_user_code(name: str) -> str:
    """Hash the files of a user's function MODULE:FUNCTION."""
    return load_user_module(name.partition(":")[0]).hash
