"""What may be shown of an address: everything but the passwords and keys in it."""

from __future__ import annotations

import re
from collections.abc import Iterable

__all__ = ["shown", "shown_words"]

HIDDEN = "***"
_PASSWORD = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*://[^\s:@/?#]*):\S*@")
_TOKEN = re.compile(r"(https?://)[^\s:@/?#]+@")  # who needs no user name there has a key in its place
_QUERY = re.compile(r"(?i)([?&;][^\s=&;]*(?:pass|pwd|secret|token|key|sig|credential|auth)[^\s=&;]*=)[^\s&;'\"]+")

_COMMAND = re.compile(r"(?s)^([+~]*on_done\s*=).*")


def shown(text: str) -> str:
    """``text`` without the secrets of the addresses in it.

    >>> shown("open postgresql://me:s3:cr@t@db/runs?sslmode=require&sslpassword=x")
    'open postgresql://me:***@db/runs?sslmode=require&sslpassword=***'
    >>> shown("https://t0ken@host/ and s3://ID:KEY@bucket/table, not http://127.0.0.1:5000")
    'https://***@host/ and s3://ID:***@bucket/table, not http://127.0.0.1:5000'
    """
    for pattern, kept in ((_PASSWORD, rf"\1:{HIDDEN}@"), (_TOKEN, rf"\1{HIDDEN}@"), (_QUERY, rf"\1{HIDDEN}")):
        text = pattern.sub(kept, text)
    return text


def shown_words(words: Iterable[str]) -> list[str]:
    """A command line without its secrets; a word is one address, so that a space in a password hides nothing.

    What the shell runs at the end may hold a password anywhere.

    >>> shown_words(["tracking.uri=mysql://me:two words@db/runs", "seed=0,1"])
    ['tracking.uri=mysql://me:***@db/runs', 'seed=0,1']
    >>> shown_words(["+on_done='curl -u me:secret host'"])
    ['+on_done=***']
    """
    words = [_COMMAND.sub(rf"\1{HIDDEN}", word) for word in words]
    return [shown(re.sub(r"\s+", "_", word)) if "://" in word else word for word in words]
