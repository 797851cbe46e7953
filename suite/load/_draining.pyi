import select

from suite.load.draining import Ended, Stream

CONTRACT: int

def drain(
    epoll: select.epoll, watched: dict[int, Stream], ended: Ended, wall_base_s: int, wall_ahead_s: float
) -> int: ...
