"""What belongs to the main text for where it stands: small gaps between its parts, headings before, remains behind it.

Such lines say little by themselves: hours in cells, a row between two paragraphs, a title. On held-out hosts
(``train_extractor_folds``) F1 loses .0002 by gaps and gains .0001 by headings; gaps of up to 1,000 bytes, down to a
share of .05 and beside any block would cost .0012 more, headings of any share .0008 on AEB.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from cleanpipe_stages.html.blocks.segment import Blocks, Places
from cleanpipe_stages.html.blocks.tables import Flags, inside, named, pairs

# A gap that is filled has at most so many blocks and bytes, no more than this part of them in links, no block that
# the model gives less than this share, and lies between blocks that it gives more than ``SURE``.
BLOCKS, BYTES, LINKED, SHARE, SURE = 8, 100, 0.3, 65536 // 10, 65536 * 9 // 10
REST = 65536 // 20  # the same for what stands behind the last kept block: a short list or table ends a page
HEADING = 65536 // 10  # the least share of a heading that stays for what it stands before
_HEADINGS = named(f"h{n}" for n in range(1, 7))
_REST = 8  # bytes of the least rest; half a character of a cut page is none


def filled(blocks: Blocks, keep: Flags, share: Places, never: Flags) -> Flags:
    """The kept blocks with the small gaps between them, and a small rest up to the page's end or its foot.

    blocks: of one page or several. share: 65,536 times what the model thinks of each block, ``model.DOUBLE`` where
    it stands elsewhere: a double parts gaps as a kept block does, and is none. never: blocks whose gap is left open.
    """
    double = share < 0
    kept = np.flatnonzero(keep | (double & ~never))
    if not len(kept):
        return keep
    n = len(keep)
    low, high = kept + 1, np.append(kept[1:], n)
    page_end = blocks.pages[1:, 2][blocks.page[kept]]
    last = high >= page_end  # kept block of its page
    foot = np.append(np.flatnonzero(never), n)
    high[last] = np.minimum(foot[np.searchsorted(foot, low[last])], page_end[last])
    sure = (double | (share > SURE))[kept]
    small = (high > low) & (high - low <= BLOCKS) & (last | (sure & np.append(sure[1:], False)))
    low, high, last = low[small], high[small], last[small]
    if not len(low):
        return keep
    size = _between(blocks.end - blocks.start, low, high)
    good = (size <= BYTES) & (~last | (size >= _REST))
    good &= _between(blocks.linked, low, high) <= LINKED * size
    doubtful = np.where(last, _between(share < REST, low, high), _between(share < SHARE, low, high))
    good &= (doubtful == 0) & (_between(never, low, high) == 0)
    return keep | inside(low[good], high[good], n)


def headed(blocks: Blocks, keep: Flags, share: Places, never: Flags) -> Flags:
    """The kept blocks with the headings that stand right before one. share: as in ``filled``. never: not these."""
    begin, end = pairs(blocks, _HEADINGS)
    heads = ~never & (share >= HEADING) & inside(blocks.until[begin], blocks.until[end], len(keep))
    # the first block of a page stands behind none
    before = np.flatnonzero(keep[1:] & ~keep[:-1] & heads[:-1] & (blocks.page[1:] == blocks.page[:-1]))
    if not len(before):
        return keep
    keep = keep.copy()
    good = heads & (2 * blocks.linked <= blocks.end - blocks.start)
    page = blocks.page
    for block in before.tolist():
        at = page[block]
        while block >= 0 and page[block] == at and good[block] and not keep[block]:
            keep[block] = True
            block -= 1
    return keep


def _between(values: npt.NDArray[np.generic], low: Places, high: Places) -> Places:
    sums = np.append(0, np.cumsum(values, dtype=np.int64))
    between: Places = sums[high] - sums[low]
    return between
