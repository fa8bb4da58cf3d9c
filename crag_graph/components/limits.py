"""A limit on calls in flight that holds for the whole process, whatever loop or thread a call runs in."""

import asyncio
import threading
from collections import deque
from concurrent.futures import Future


class Limiter:
    """Let at most `limit` holders in at a time: `async with limiter: ...`.

    An `asyncio.Semaphore` belongs to one event loop; this one hands its places over between loops, first come first
    served.
    """

    def __init__(self, limit: int) -> None:
        self._lock = threading.Lock()
        self._free = limit
        self._waiting: deque[Future[None]] = deque()

    async def __aenter__(self) -> None:
        with self._lock:
            if self._free:
                self._free -= 1
                return
            turn: Future[None] = Future()
            self._waiting.append(turn)
        try:
            await asyncio.wrap_future(turn)
        except asyncio.CancelledError:
            if not turn.cancel():  # a place was handed over just before the cancellation: pass it on
                self._leave()
            raise

    async def __aexit__(self, *_: object) -> None:
        self._leave()

    def _leave(self) -> None:
        with self._lock:
            while self._waiting:
                turn = self._waiting.popleft()
                if turn.set_running_or_notify_cancel():
                    break
            else:
                self._free += 1
                return
        turn.set_result(None)
