"""What a server that is pulled from has said of the messages that have not come. It asks no clock."""

from __future__ import annotations


class Pulls:
    """What the answers to a feed's pulls say about the messages that have not come.

    A pull that failed may have had an answer: its messages are on no side until the server's lease of them
    ends. Until then an empty answer says nothing.

    Args:
        lease: for how many milliseconds a server keeps messages that it sent from being sent again.
    """

    def __init__(self, lease: int = 0) -> None:
        self._lease = lease
        self._begun = 0
        self._doubtful_until: int | None = None
        #: When the last empty pull that counts began; None if the last answer that counts had messages, or
        #: there was no answer.
        self.empty: int | None = None

    def begin(self, elapsed: int) -> None:
        """A pull begins; it ends with :meth:`answer` or :meth:`fail`."""
        self._begun = elapsed

    def answer(self, messages: int) -> None:
        """The server answered with this many messages."""
        if messages:
            self.empty = None
        elif not self.doubtful:
            self.empty = self._begun

    def fail(self, elapsed: int) -> None:
        """The pull ended without an answer."""
        self.empty = None
        self._doubtful_until = elapsed + self._lease

    @property
    def doubtful(self) -> bool:
        """Whether messages for a failed pull may still have been on their way when the last pull began."""
        return self._doubtful_until is not None and self._begun < self._doubtful_until
