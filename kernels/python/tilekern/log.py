"""What was called: counts of calls served and rejected, by function and reason; TILEKERN_LOG=1 prints each kind of call once."""
import logging
import os
from collections import Counter

logger = logging.getLogger("tilekern")
counts = Counter()  # (function, "served" or the reason why it was not)


def enable():
    if os.environ.get("TILEKERN_LOG", "0") not in ("", "0"):
        if not logger.handlers:
            handler = logging.StreamHandler()
            handler.setFormatter(logging.Formatter("[tilekern] %(message)s"))
            logger.addHandler(handler)
        logger.setLevel(logging.INFO)


def note(function, what):
    key = function, what
    before = counts.get(key, 0)
    counts[key] = before + 1
    if not before:
        logger.info("%s: %s", function, what)


def served(function):
    """How many calls of a function ran here."""
    return counts[function, "served"]


enable()
