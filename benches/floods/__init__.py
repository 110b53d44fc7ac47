"""Hostile clients: each flood is a coroutine that runs until its process is ended."""

from . import frames, logins, plain, tls
from .crowd import Target, begin

#: One that the server has no part in, before all others.
ELSEWHERE = plain.elsewhere
#: In the order in which they run.
FLOODS = [*plain.FLOODS, *tls.FLOODS, *logins.FLOODS]

__all__ = ["ELSEWHERE", "FLOODS", "Target", "begin", "frames"]
