"""The stream that a run is shown on, which may be a terminal, a file, or closed."""

import os
from typing import TextIO


def is_terminal(stream: TextIO | None) -> bool:
    """Whether a line can be drawn anew on it: a terminal that is not dumb, and has a width."""
    try:
        columns = os.get_terminal_size(stream.fileno()).columns if stream is not None and stream.isatty() else 0
    except (OSError, ValueError):  # closed, or without a file
        return False
    return columns > 0 and os.environ.get("TERM") != "dumb"


class Screen:
    """Lines of text and, on a terminal, one live line below them."""

    def __init__(self, stream: TextIO | None, live: bool) -> None:
        self.stream = stream
        self.live = live and is_terminal(stream)
        self.bar = None

    def say(self, text: str) -> None:
        """Write a line, or several, above the live line. A reader that has gone away ends the output, not the run."""
        if self.stream is None:
            return
        try:
            if self.bar is not None:
                self.bar.clear()
            self.stream.write(f"{text}\n")
            self.stream.flush()
            if self.bar is not None:
                self.bar.refresh()
        except UnicodeEncodeError:
            self.say(text.encode("ascii", "backslashreplace").decode())
        except (OSError, ValueError):
            self.abandon()

    def draw(self, done: int, total: int, plus: str, words: str) -> None:
        """Draw the live line anew."""
        if not self.live or self.stream is None:
            return
        try:
            if self.bar is None:
                from tqdm import tqdm

                # With a delay it is not drawn before it has its text.
                self.bar = tqdm(file=self.stream, total=total, leave=False, dynamic_ncols=True, delay=1e-9)
            self.bar.n, self.bar.total = done, total
            self.bar.bar_format = "{desc} |{bar:16}| " + words.replace("{", "{{").replace("}", "}}")
            self.bar.desc = f"[{done:{len(str(total))}}/{total}{plus}]"
            self.bar.refresh()
        except (OSError, ValueError):
            self.abandon()

    def close(self) -> None:
        """Take the live line away."""
        if self.bar is not None:
            try:
                self.bar.close()
            except (OSError, ValueError):
                self.abandon()
            self.bar = None
        self.live = False

    def abandon(self) -> None:
        """Nobody reads any more. What Python still holds for the stream goes nowhere, else it would complain at its end."""
        stream, self.stream, self.bar, self.live = self.stream, None, None, False
        try:
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, stream.fileno())
            os.close(nowhere)
        except (OSError, ValueError, AttributeError):
            pass
