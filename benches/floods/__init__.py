"""Hostile clients: each flood is a coroutine that runs until its process is ended."""

from . import frames, logins, plain, tls
from .crowd import Target, begin

#: Runs first; it shows the effect of a flood that does not reach the measured server.
ELSEWHERE = plain.elsewhere
#: The floods, in the order in which they run.
FLOODS = [*plain.FLOODS, *tls.FLOODS, *logins.FLOODS]

__all__ = ["ELSEWHERE", "FLOODS", "Target", "begin", "frames"]
