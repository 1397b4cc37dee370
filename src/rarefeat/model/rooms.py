"""Rooms: forked processes in which own code runs, each for one seed of one training.

What a seed's numbers are, where own code takes part, is defined by a room: the seed is alone in it,
the user's files are imported anew, and all generators are seeded by it. So nothing that own code
keeps, patches, draws or sets reaches another seed, another training or this process.

A room refuses what own code reads and no hash has (own_files.py). A rehearsal, the first steps of a
seed in another room, must have the same bits: otherwise the numbers depend on more than the seed.
Where a process cannot be forked, or trains on a GPU, it is the room itself.
"""

import builtins
import ctypes
import functools
import gc
import hashlib
import os
import pickle
import signal
import sys
import traceback
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from multiprocessing.connection import Connection, Pipe, wait
from types import ModuleType
from typing import Any, NamedTuple

from rarefeat.errors import RarefeatError
from rarefeat.model import own_files
from rarefeat.model.own_files import Seal

BUILTINS = frozenset(vars(builtins))
VARIABLES = (
    *("PATH", "HOME", "USER", "LANG", "LC_", "TZ", "TMP", "XDG_", "LD_", "PYTHON", "RAREFEAT_"),
    *("CUDA", "TORCH", "NUMBA_", "OMP_", "MKL_", "KMP_", "OPENBLAS_", "MALLOC_", "GLIBC_", "JE_"),
)
"""Beginnings of the environment variables that code of files sees, and *_NUM_THREADS."""
REHEARSED_STEPS = 10
PR_SET_PDEATHSIG = 1
CAN_FORK = sys.platform == "linux"
SEALED: dict[tuple[str, ...], Seal] = {}
"""Seals of modules by their name and the folders in which they and their imports are looked for."""


class Room:
    """A room: its work, which yields what it is to send, and what is known of it.

    `key`, a namespace and a seed, seeds its generators.
    """

    def __init__(
        self,
        own: list[str],
        work: Callable[[], Iterable],
        key: tuple[str, int] = ("", 0),
        seals: Mapping[str, Seal] | None = None,
        is_rehearsal: bool = False,
        is_forked: bool = CAN_FORK,
    ) -> None:
        self.own, self.work, self.key, self.seals = own, work, key, seals
        self.is_rehearsal, self.is_forked = is_rehearsal, is_forked
        self.modules = modules_of(own)
        self.is_of_files = len(self.modules) > 0 and all(":" in name for name in own)
        self.digest, self.n_marks, self.noted = b"", 0, set()
        self.send: Callable[[Any], None] | None = None

    def refusal(self) -> str:
        """Return why own code of files is refused for what it has read; empty if it is not."""
        if not self.seals or not self.is_of_files:
            return ""
        unseen = own_files.find_unseen(self.noted, self.seals)
        return unseen and f"{', '.join(self.own)}: {unseen}"


class Answer(NamedTuple):
    """What a room sends."""

    value: Any = None
    digest: bytes = b""
    error: str = ""
    trace: str = ""
    told: tuple = ()
    """What listeners are to be told, before there is an answer."""


class Rehearsed(BaseException):
    """The end of a rehearsal."""


class OwnTraceback(Exception):
    """The traceback of an error in a room."""


ROOM: Room | None = None
"""The room that this process is."""


def is_alone() -> bool:
    """Return whether this process is a room of one seed."""
    return ROOM is not None and ROOM.is_forked


def mark(*tensors: Any) -> None:
    """Note the state (S, ...) of the last replica before a step in which own code acts."""
    if not ROOM or ROOM.n_marks > REHEARSED_STEPS:
        return
    for tensor in tensors:
        data = tensor[-1].detach().cpu().double().numpy().tobytes()
        ROOM.digest = hashlib.sha256(ROOM.digest + data).digest()
    ROOM.n_marks += 1
    if ROOM.n_marks > REHEARSED_STEPS and ROOM.is_rehearsal:
        raise Rehearsed


LISTENERS: list[Callable[..., None]] = []
"""Functions that are told what happens while a training runs."""


def tell(*values: Any) -> None:
    """Tell plain values to the listeners, of a room to those of the process that has started it."""
    if ROOM and ROOM.send:
        ROOM.send(Answer(told=values))
    elif not (ROOM and ROOM.is_rehearsal):
        for listen in LISTENERS:
            listen(*values)


def aside(checks: Callable[[], Any]) -> None:
    """Make checks of own code where they leave no trace: once, in a room of the rehearsal."""
    if not is_alone():
        checks()
    elif ROOM.is_rehearsal:
        run_rooms([Room(ROOM.own, lambda: [checks()])])


def train_alone(
    train: Callable[[int], Any],
    namespace: str,
    seeds: list[int],
    own: list[str],
    is_rehearsed: bool = True,
    show: Callable[[Iterable, int], Iterable] = lambda items, total: items,
) -> list:
    """Return what `train` returns of each seed, in a room of its own; several run side by side.

    RarefeatError if own code fails, reads what no hash has, or if a rehearsal of the first seed has
    other numbers.
    """
    if not CAN_FORK:
        return list(map(train, seeds))
    seals = seal_all(own)

    def make_room(seed: int, is_rehearsal: bool = False) -> Room:
        return Room(own, lambda: [train(seed)], (namespace, seed), seals, is_rehearsal)

    rehearsals = [make_room(seed, True) for seed in seeds[:is_rehearsed]]
    found = run_rooms([*rehearsals, *map(make_room, seeds)], show)
    check_same(found[0], found[is_rehearsed], own)
    for name, seal in seals.items():
        if not own_files.is_current(seal.digests):
            path = own_files.module_file(name)
            raise RarefeatError(f"{path}: was edited while it trained; run it again")
    return [answer.value for answer in found[is_rehearsed:]]


def train_here(train: Callable[[list[int], str], Any], seeds: list[int], own: list[str]) -> Any:
    """Return what `train` returns of all seeds at once, in this process as a room.

    A rehearsal of the last seed on the processor, alone and beside another one, guards it alone.
    """
    warnings.warn(
        f"{', '.join(own)}: trains in this process, all seeds at once, as a GPU or a system without"
        " forks needs it; a rehearsal of the last seed, alone and beside another, guards it alone",
        stacklevel=2,
    )
    runs = (seeds[-1:], "cpu", True), (seeds[-2:], "cpu", True), (seeds, "", False)
    answers: list[Answer] = []
    for some, device, is_rehearsal in runs:
        work = functools.partial(train, some, device)
        room = Room(own, lambda work=work: [work()], ("", 0), seal_all(own), is_rehearsal, False)
        answers += map(settle, occupy(room))
        check_same(*answers[:2], own) if len(answers) == 2 else None
    return answers[-1].value


def check_same(first: Answer, second: Answer, own: list[str]) -> None:
    """Raise RarefeatError if two rooms had other numbers."""
    if first.digest != second.digest:
        raise RarefeatError(
            f"{', '.join(own)}: a seed has other numbers when it is trained again; own code must"
            " not use the clock, unseeded generators, numbers of processes, files that it writes"
            " or, where all seeds train at once, the other seeds"
        )


def stream(work: Callable[[], Iterable], key: tuple[str, int], own: list[str]) -> Iterator:
    """Yield items from a room, which ends with this iterator."""
    if ROOM or not CAN_FORK:
        yield from work()
        return
    pid, pipe = fork(Room(own, work, key, seal_all(own)))
    try:
        while True:
            yield settle(receive(pipe, own)).value
    finally:
        end(pid, pipe)


def modules_of(own: Iterable[str]) -> list[str]:
    """List the modules of own code of files, which is called MODULE:NAME."""
    return list(dict.fromkeys(name.partition(":")[0] for name in own if ":" in name))


def seal_all(own: Iterable[str]) -> dict[str, Seal]:
    """Return the seals of the modules of own code, each of which is imported in a room."""
    seals = {}
    for module in modules_of(own):
        place = module, *own_files.search_folders()
        known = SEALED.get(place)
        if not known or not own_files.is_current(known.digests | known.folders):
            room = Room([f"{module}:"], lambda name=module: [own_files.make_seal(name)])
            (answer,) = run_rooms([room]) if CAN_FORK else map(settle, occupy(room))
            SEALED[place] = answer.value
        seals[module] = SEALED[place]
    return seals


def hash_user_code(name: str) -> str:
    """Hash the files of own code MODULE:NAME."""
    (seal,) = seal_all([name]).values()
    return seal.hash


def n_cores() -> int:
    """Return how many rooms run side by side: the cores, or OMP_NUM_THREADS if it is less."""
    limit, n = os.environ.get("OMP_NUM_THREADS", ""), len(os.sched_getaffinity(0))
    return max(1, min(n, int(limit))) if limit.isdecimal() else n


def run_rooms(
    rooms: list[Room],
    show: Callable[[Iterable, int], Iterable] = lambda items, total: items,
) -> list[Answer]:
    """Return the answer of each room."""
    running: dict[Connection, tuple[int, int]] = {}
    found: dict[int, Answer] = {}
    waiting, n = list(range(len(rooms))), n_cores()

    def finished() -> Iterator[int]:
        # A rehearsal, the first room, has checks that say more than what fails without them.
        while waiting or running:
            if 0 in found and any(answer.error for answer in found.values()):
                return
            while waiting and len(running) < n:
                pid, pipe = fork(rooms[waiting[0]])
                running[pipe] = pid, waiting.pop(0)
            for pipe in wait([*running]):
                pid, place = running[pipe]
                found[place] = receive(pipe, rooms[place].own)
                if found[place].told:
                    tell(*found.pop(place).told)
                    continue
                del running[pipe]
                end(pid, pipe)
                yield place

    try:
        for _ in show(finished(), len(rooms)):
            pass
    finally:
        for pipe, (pid, _) in running.items():
            end(pid, pipe)
    return [settle(answer) for _, answer in sorted(found.items())]


def fork(room: Room) -> tuple[int, Connection]:
    """Start a room; return its process, and the pipe on which it sends its answers."""
    for file in (sys.stdout, sys.stderr):
        file.flush()
    reader, writer = Pipe(duplex=False)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of threads, which stay behind
        pid = os.fork()
    if pid:
        writer.close()
        return pid, reader
    try:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # the process that has started this one acts
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        gc.freeze()  # a collection that looked at these objects would copy them
        # What a notebook shows would go by threads that this process has not.
        sys.stdin, sys.stdout, sys.stderr = None, sys.__stdout__, sys.__stderr__
        if not room.is_rehearsal:
            room.send = lambda answer: writer.send_bytes(pickle.dumps(answer))
        for answer in occupy(room):
            for file in (sys.stdout, sys.stderr):
                file.flush()
            writer.send_bytes(pickle.dumps(answer))
    finally:
        os._exit(0)  # taking all packages down takes longer than the room


def receive(pipe: Connection, own: list[str]) -> Answer:
    """Read an answer of a room."""
    try:
        return pickle.loads(pipe.recv_bytes())
    except EOFError:
        return Answer(error=f"{', '.join(own)}: its process was killed")


def settle(answer: Answer) -> Answer:
    """Return an answer; raise its error."""
    if answer.error:
        raise RarefeatError(answer.error) from OwnTraceback(answer.trace)
    return answer


def end(pid: int, pipe: Connection) -> None:
    """End a room."""
    pipe.close()
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)


def occupy(room: Room) -> Iterator[Answer]:
    """Make this process a room, and yield its answers; within another room, as part of that."""
    global ROOM
    from rarefeat.model.randomness import generator, global_generators
    from rarefeat.model.stream_names import OWN_CODE

    outer, ROOM = ROOM, room
    room.noted, room.seals = (outer or room).noted, (outer or room).seals
    own_files.install_hook()
    own_files.NOTED[:] = [room.noted]
    try:
        with global_generators(generator(*room.key, OWN_CODE)):
            if not outer:
                furnish(room)
            for item in room.work():
                if refusal := room.refusal():
                    raise RarefeatError(refusal)
                yield Answer(item, room.digest)
    except Rehearsed:
        yield Answer(None, room.digest, room.refusal())
    except (Exception, SystemExit) as error:
        trace = "".join(traceback.format_exception(error.__cause__ or error))
        line = f"{', '.join(room.own)}: fails: {own_files.one_line(error)}"
        line = str(error) if isinstance(error, RarefeatError) else line
        yield Answer(None, b"", room.refusal() or line, trace)
    finally:
        ROOM = outer
        own_files.NOTED[:] = [outer.noted] if outer else []


def furnish(room: Room) -> None:
    """Forget the session where own code of files alone runs, and import its modules."""
    import torch

    if room.is_forked:
        torch.set_num_threads(1)
        torch.set_num_threads = lambda n: None  # the threads of an earlier pool are not here
    for name in own_files.user_modules() if room.modules else ():
        del sys.modules[name]
    # Sources alone, which no cache of an earlier text stands for.
    sys.dont_write_bytecode, sys.pycache_prefix = True, os.devnull
    if room.is_forked and room.is_of_files:
        sys.modules["__main__"], sys.argv = ModuleType("__main__"), [""]
        for name in vars(builtins).keys() - BUILTINS:
            delattr(builtins, name)
        for name in [*os.environ]:
            if not name.startswith(VARIABLES) and not name.endswith("_NUM_THREADS"):
                del os.environ[name]
    for name in room.modules:
        own_files.import_module(name)
