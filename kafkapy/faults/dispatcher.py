"""The dispatcher of a broker with faults: it stands before that of all others."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from kafkapy.faults.connections import ConnectionFault
from kafkapy.faults.kinds import PASSED, Asked
from kafkapy.faults.request_fault import RequestFault
from kafkapy.protocol.types import Uuid

if TYPE_CHECKING:
    from kafkapy.metadata.cache import MetadataCache
    from kafkapy.network.dispatcher import Dispatcher
    from kafkapy.protocol.frames import RequestHeader


class FaultyDispatcher:
    """Lets requests meet the first fault that takes them, and leads the others on."""

    def __init__(
        self,
        dispatcher: Dispatcher,
        metadata: MetadataCache,
        faults: tuple[RequestFault | ConnectionFault, ...],
    ) -> None:
        self._dispatcher = dispatcher
        self._metadata = metadata
        self._faults = faults
        self.max_version = dispatcher.max_version
        self.endpoint = dispatcher.endpoint
        self.refusal = dispatcher.refusal
        self.failed = dispatcher.failed

    def call(self, connection: Any, header: RequestHeader, endpoint: Any, request: Any) -> Any:
        """Call the handler of a decoded request, unless a fault meets it."""
        serve = partial(self._dispatcher.call, connection, header, endpoint)
        for fault in self._faults:
            if fault.concerns(connection, header) and not fault.is_over:
                asked = Asked(connection, header, endpoint, request, serve, self._topic_name)
                answer = fault.meet(asked)
                if answer is not PASSED:
                    return answer
        return serve(request)

    def _topic_name(self, topic_id: Uuid) -> str | None:
        return self._metadata.image.topic_name(topic_id)
