"""Hostile clients: each flood is a coroutine that runs until its process is ended."""

from . import frames, logins, plain, tls
from .crowd import Target, begin

#: In the order in which they run.
FLOODS = [*plain.FLOODS, *tls.FLOODS, *logins.FLOODS]

__all__ = ["FLOODS", "Target", "begin", "frames"]
