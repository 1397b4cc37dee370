"""Import and hash user-defined code, by whole files below the working directory.

The hash of a module is of the contents of
    - all modules whose source runs when it is imported, whatever was imported before;
    - modules that these name in imports within functions;
    - files that these read at import, and those that they declare, as in `reads = ["a.csv"]`.

Files of installed packages and of rarefeat do not count. Python's cached bytecode is not used, so
that the text that is hashed is the text that runs. `opened_files` notes what a function opens
while it runs, which no hash can foresee.
"""

import ast
import contextlib
import hashlib
import importlib
import os
import sys
import time
from collections.abc import Iterable, Iterator
from importlib.machinery import ModuleSpec, SourceFileLoader
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any, NamedTuple

from rarefeat.core.errors import RarefeatError

PACKAGE = Path(__file__).parents[1]
CLOCK_TICK_NS = 2 * 10**9
"""A file that was written so recently may change again and keep its size and time."""
SYSTEM_FOLDERS = ("/proc", "/sys", "/dev")
"""Files that hold no data of a user's."""


class UserModule(NamedTuple):
    """A user's module, as its files were when it was imported."""

    module: ModuleType
    signatures: dict[Path, tuple]
    """Signature of each file in the hash, and of absent files that an import in them would find."""
    hash: str


IMPORTED: dict[tuple[Path, str], UserModule] = {}
"""Modules by the working directory and their name."""
READING: list[dict[Path, bytes]] = []
"""Contents of the files that an import in progress has read; none if there is no import."""
OPENED: list[list[Path]] = []
"""Files that the functions in progress have opened (`opened_files`)."""


def is_installed_file(path: str | Path) -> bool:
    """Return whether a file belongs to Python, to an installed package or to rarefeat."""
    path = Path(os.path.abspath(path))
    folders = (PACKAGE, Path(sys.prefix), Path(sys.base_prefix))
    # A working directory may lie below a prefix, as /usr/local/work does.
    folders = tuple(folder for folder in folders if not Path.cwd().is_relative_to(folder))
    return "site-packages" in path.parts or any(map(path.is_relative_to, folders))


def is_user_file(path: str | Path) -> bool:
    """Return whether a path is below the working directory, and of no installed package."""
    # As texts, since thousands of modules are asked for at each import.
    is_below = os.path.abspath(path).startswith(os.path.join(os.getcwd(), ""))
    return is_below and not is_installed_file(path)


class SourceLoader(SourceFileLoader):
    """A loader that runs the source of a user's module, and no cached bytecode."""

    def get_code(self, fullname: str) -> CodeType:
        """Compile the source as it is."""
        source = self.get_data(self.path)
        for contents in READING:
            contents[Path(self.path)] = source
        for files in OPENED:
            files.append(Path(self.path))
        return self.source_to_code(source, self.path)


class UserFinder:
    """A finder of a user's modules for SourceLoader."""

    @staticmethod
    def find_spec(name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        """Find a module; None if it is not the user's.

        Parameters
        ----------
        name : str
            Absolute name of the module.
        path, target : optional
            Folders of its package, and a module that it replaces, for the other finders.

        Returns
        -------
        ModuleSpec or None
        """
        others = (finder for finder in sys.meta_path if finder is not UserFinder)
        specs = (finder.find_spec(name, path, target) for finder in others)
        spec = next(filter(None, specs), None)
        if not spec or not isinstance(spec.loader, SourceFileLoader) or not spec.origin:
            return None
        if not is_user_file(spec.origin):
            return None
        spec.loader = SourceLoader(name, spec.origin)
        return spec


def install_hooks() -> None:
    """Have Python import a user's modules by SourceLoader, and call `note_open`, from now on."""
    if UserFinder not in sys.meta_path:
        sys.meta_path.insert(0, UserFinder)  # type: ignore[arg-type]
        sys.addaudithook(note_open)


def note_open(event: str, arguments: tuple) -> None:
    """Note a file that a user's module opens at import, or a function while it runs.

    An audit hook. What an installed package opens when it is first imported does not count, since
    it depends on earlier imports.
    """
    if event != "open" or not (READING or OPENED):
        return
    name, mode, flags = arguments
    is_read = "r" in mode or "+" in mode if mode else flags & os.O_ACCMODE != os.O_WRONLY
    if not is_read or not isinstance(name, str | bytes | os.PathLike):
        return
    path, files = Path(os.path.abspath(os.fsdecode(name))), []
    frame = sys._getframe(1)
    while frame and "importlib" not in (file := frame.f_code.co_filename):
        files.append(file)
        frame = frame.f_back
    if READING:
        if is_user_file(path) and any(map(is_user_file, files)):
            READING[-1].setdefault(path, b"")
    elif not frame and not is_installed_file(path) and not str(path).startswith(SYSTEM_FOLDERS):
        OPENED[-1].append(path)


@contextlib.contextmanager
def opened_files() -> Iterator[list[Path]]:
    """List the files that are opened to be read meanwhile; a user's modules count as well."""
    install_hooks()
    files: list[Path] = []
    OPENED.append(files)
    try:
        yield files
    finally:
        OPENED.pop()


@contextlib.contextmanager
def called_files() -> Iterator[set[str]]:
    """Collect the files of the Python functions that are called meanwhile."""
    files: set[str] = set()
    before = sys.getprofile()
    sys.setprofile(lambda frame, event, argument: files.add(frame.f_code.co_filename))
    try:
        yield files
    finally:
        sys.setprofile(before)


def hashed_files(name: str) -> set[Path]:
    """Return the files in the hash of a module that was imported last; none for another one."""
    entry = IMPORTED.get((Path.cwd(), name))
    return set(entry.signatures) if entry else set()


def is_user_module(module: ModuleType) -> bool:
    """Return whether an imported module is the user's, of this working directory or another."""
    loader = getattr(getattr(module, "__spec__", None), "loader", None)
    path = getattr(module, "__file__", None) or next(iter(getattr(module, "__path__", ())), "")
    return isinstance(loader, SourceLoader) or (path != "" and is_user_file(path))


def import_afresh(name: str) -> tuple[ModuleType, dict[Path, bytes], list[Path]]:
    """Import a module from its source.

    Other modules of the user's stay imported as they were, and the ones that this imports are new.

    Returns
    -------
    tuple of module, dict and list
        The module; the contents of the files in its hash; and the files that are not there, and
        that an import in them would find.
    """
    install_hooks()
    folder = str(Path.cwd())
    sys.path[:] = [folder, *(path for path in sys.path if path != folder)]
    importlib.invalidate_caches()
    earlier = {key: module for key, module in sys.modules.items() if is_user_module(module)}
    earlier.pop("__main__", None)
    for key in earlier:
        del sys.modules[key]
    contents: dict[Path, bytes] = {}
    READING.append(contents)
    try:
        module = importlib.import_module(name)
        # Modules that no source loader has read, such as compiled ones, count by their files.
        for key, other in list(sys.modules.items()):
            file = getattr(other, "__file__", None)
            if file and key != "__main__" and is_user_module(other):
                contents.setdefault(Path(file), b"")
        files, absent = list_files(contents)
        for path in files:
            contents[path] = contents.get(path) or path.read_bytes()
    except RarefeatError:
        raise
    except Exception as error:
        reason = f"{type(error).__name__}: {next(iter(str(error).splitlines()), '')}"
        raise RarefeatError(f"{module_file(name)} cannot be imported: {reason}") from error
    finally:
        READING.pop()
        for key, before in earlier.items():
            # Modules of one package stay together, and a later import in a function is new, too.
            is_listed = Path(getattr(before, "__file__", None) or "") in contents
            if key.partition(".")[0] not in sys.modules and not is_listed:
                sys.modules[key] = before
    return module, contents, absent


def list_files(files: Iterable[Path]) -> tuple[list[Path], list[Path]]:
    """List files with those that modules among them import or declare, and which are absent."""
    queue, absent = list(files), []
    for path in queue:
        tree = ast.parse(path.read_bytes()) if path.suffix == ".py" else ast.Module([], [])
        imported: list[Path] = []
        for node in ast.walk(tree):
            if isinstance(node, ast.Import):
                names, folder = [item.name for item in node.names], Path.cwd()
            elif isinstance(node, ast.ImportFrom):
                folder = path.parents[node.level - 1] if node.level else Path.cwd()
                names = [".".join(filter(None, [node.module, item.name])) for item in node.names]
            else:
                continue
            imported += [file for name in names for file in module_files(folder, name)]
        present = [file for file in imported if file.is_file() and is_user_file(file)]
        absent += [file for file in imported if not file.is_file()]
        present += declared_files(path, tree)
        queue += [file for file in dict.fromkeys(present) if file not in queue]
    return queue, absent


def module_files(folder: Path, name: str) -> Iterator[Path]:
    """List the files that a module, and the packages around it, may have below a folder."""
    for component in name.split("."):
        folder = folder / component
        yield from (folder.with_suffix(".py"), folder / "__init__.py")


def declared_files(path: Path, tree: ast.Module) -> list[Path]:
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
        if missing := [name for name in names if not Path(name).is_file()]:
            raise RarefeatError(f"{path}: reads: there is no file {missing[0]} in {Path.cwd()}")
        files += [Path.cwd() / name for name in names]
    return files


def module_file(name: str) -> Path:
    """Return the file of a module of the user's."""
    return Path.cwd().joinpath(*name.split(".")).with_suffix(".py")


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
    """Import a module of the user's, anew if a file of its hash was edited since the last time.

    Raises
    ------
    RarefeatError
        If it cannot be imported, or if another module has its name.
    """
    key = Path.cwd(), name
    if key in IMPORTED:
        signatures = IMPORTED[key].signatures
        if all(signature(path) == before for path, before in signatures.items()):
            return IMPORTED[key]
    is_builtin = name.partition(".")[0] in sys.stdlib_module_names
    module, contents, absent = (sys, {}, []) if is_builtin else import_afresh(name)
    if getattr(module, "__file__", None) != str(module_file(name)):
        raise RarefeatError(
            f"{module_file(name)}: an installed module is called {name}, too; rename the file"
        )
    names = {os.path.relpath(path): text for path, text in contents.items()}
    texts = [text for name, content in sorted(names.items()) for text in (name.encode(), content)]
    digests = [hashlib.sha256(text).digest() for text in texts]
    value = hashlib.sha256(b"".join(digests)).hexdigest()[:16]
    signatures = {path: signature(path) for path in (*contents, *absent)}
    IMPORTED[key] = UserModule(module, signatures, value)
    return IMPORTED[key]


def hash_user_code(name: str) -> str:
    """Hash the files of a user's function MODULE:FUNCTION."""
    return load_user_module(name.partition(":")[0]).hash
