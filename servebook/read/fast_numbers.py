"""Decimal numbers of milliseconds as whole nanoseconds, many at once, without a Python object each.

A gap is read as JSON does it (to the nearest float), times a million, to the nearest whole number.
Here the digits are added up as whole numbers instead: eight digits after the point decide the
result wherever it is not within a hundredth of a half, and a float's own error is far below that
(2**-52 of less than 10**11). The few that are nearer are read the long way. So both ways give the
same numbers, always; and whatever is written in another form is left to the caller.

Own code: parsers of JSON, CSV and numbers make a float of each number first, which takes longer
than everything else in reading a dump.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

__all__ = ["ns_of_ms"]

_NS_PER_MS = 1_000_000
_MOST_WHOLE_DIGITS = 5
_ZEROS = np.uint64(0x3030303030303030)
#: By the number of digits: the bytes of a little-endian word that hold them.
_MASK = np.array([(1 << (8 * n)) - 1 for n in range(8)] + [2**64 - 1], np.uint64)
_FILL = ~_MASK & _ZEROS

Ints = npt.NDArray[np.int64]


def ns_of_ms(texts: Sequence[bytes]) -> list[Ints] | None:
    """The numbers of each text (``1.5,20.25,...``: digits, a point, digits) in whole ns.

    None where anything in them has another form: the caller then reads them the long way. The sum
    of a text of up to a million bytes is below 10**17.
    """
    padded = np.frombuffer(b",".join((*texts, b"0" * 8)), np.uint8)
    digits = padded[:-8]
    if not len(digits) or digits.max() > ord("9"):
        return None
    marks = np.flatnonzero(digits < ord("0"))
    points, ends = marks[::2], marks[1::2]
    if len(points) != len(ends):
        return None
    if not ((digits[points] == ord(".")).all() and (digits[ends] == ord(",")).all()):
        return None
    starts = np.empty_like(ends)
    starts[0] = 0
    np.add(ends[:-1], 1, out=starts[1:])
    n_whole, n_part = points - starts, ends - points - 1
    most = int(n_whole.max())
    if n_whole.min() < 1 or n_part.min() < 1 or most > _MOST_WHOLE_DIGITS:
        return None
    if most > 1 and ((digits[starts] == ord("0")) & (n_whole > 1)).any():
        return None
    # Each place of the padded text as a word of the eight bytes from there on.
    words = np.ndarray((len(padded) - 7,), "<u8", buffer=padded, strides=(1,))
    out = _numbers(digits, words, points, n_whole, n_part)
    for i in np.flatnonzero(out < 0):
        number = padded[starts[i] : ends[i]].tobytes()
        out[i] = round(float(number) * float(_NS_PER_MS))
    last = np.cumsum([len(text) + 1 for text in texts]) - 1
    return np.split(out, np.searchsorted(ends, last[:-1], "right"))


def _numbers(
    digits: npt.NDArray[np.uint8],
    words: npt.NDArray[np.uint64],
    points: npt.NDArray[np.intp],
    n_whole: npt.NDArray[np.intp],
    n_part: npt.NDArray[np.intp],
) -> Ints:
    """Whole ns, rounded by the eighth digit; negative (less one) where that is too near a half."""
    n_part = np.minimum(n_part, 8)
    word = words[points + 1]
    word &= _MASK[n_part]
    word |= _FILL[n_part]
    # Eight digits in one word: pairs, then fours, then all; the well-known three products.
    word &= np.uint64(0x0F0F0F0F0F0F0F0F)
    word *= np.uint64(2561)
    word >>= np.uint64(8)
    word &= np.uint64(0x00FF00FF00FF00FF)
    word *= np.uint64(6553601)
    word >>= np.uint64(16)
    word &= np.uint64(0x0000FFFF0000FFFF)
    word *= np.uint64(42949672960001)
    word >>= np.uint64(32)
    hundredths = word.astype(np.int64)
    whole = digits[points - 1].astype(np.int64)
    whole -= ord("0")
    factor = 1
    for place in range(1, int(n_whole.max())):
        factor *= 10
        digit = digits[np.maximum(points - 1 - place, 0)].astype(np.int64) - ord("0")
        whole += np.where(n_whole > place, digit * factor, 0)
    hundredths += whole * (_NS_PER_MS * 100)
    found = (hundredths + 50) // 100
    rest = hundredths - found * 100  # -50 to 49; 49 and 50 hundredths are near a half
    found[(rest == -50) | (rest == 49)] = -1
    return found
