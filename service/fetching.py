"""Reading what other services answer: bounded in size and in time, and never unpacked."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import httpx

from service.core.errors import Unavailable

#: An answer that is packed grows a thousandfold when it is unpacked, and more where it is packed
#: several times over, before its size can be told.
UNPACKED = {"Accept-Encoding": "identity"}


class AnswerTooLarge(Unavailable):
    """An answer is larger than what was asked for can be, or is packed."""


async def read_bounded(answer: httpx.Response, most_bytes: int) -> bytes:
    """The content of a streamed answer.

    Parameters
    ----------
    answer
        Whose content has not been read.
    most_bytes
        What it may have [byte].

    Raises
    ------
    AnswerTooLarge
        If it has more, or is packed although it was asked not to be.
    """
    if answer.headers.get("content-encoding", "identity").strip().lower() != "identity":
        raise AnswerTooLarge("is packed although it was asked not to be")
    content = bytearray()
    async for part in answer.aiter_bytes():
        content += part
        if len(content) > most_bytes:
            raise AnswerTooLarge(f"has more than {most_bytes / 1e6:g} MB")
    return bytes(content)
