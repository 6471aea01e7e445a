"""Building the indexes of a segment anew from its batches."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from kafkapy.storage.log.batches import BadBatchError
from kafkapy.storage.log.offset_index import MAX_RELATIVE_OFFSET

if TYPE_CHECKING:
    from kafkapy.storage.log.segment import Segment

logger = logging.getLogger(__name__)


def rebuild_indexes(segment: Segment) -> None:
    """Write the indexes of a segment anew from the batch headers, as far as they can be read.

    Raises:
        OSError: the disk failed.
    """
    lowest, highest = segment.base_offset, segment.base_offset + MAX_RELATIVE_OFFSET
    try:
        segment.reset_indexes()
        try:
            for place in segment.places():
                if lowest <= place.base_offset <= place.last_offset <= highest:  # else it has rotted
                    segment.index_batch(place.position, place.last_offset, place.max_timestamp)
        except BadBatchError as error:
            logger.warning("%s is indexed up to damage: %s", segment.path, error)
        segment.complete_indexes()
    except BaseException:
        segment.forget_indexes()  # half an index would be taken for a whole one
        raise
