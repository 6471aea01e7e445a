"""IncrementalAlterConfigs: change single settings of topics, brokers and others (KIP-339).

Versions: 0-1.

Behaviour:

- Any broker changes settings, except that only broker N changes those of broker N (INVALID_REQUEST).
- All changes of a resource are made, or none. Resources are answered in the order asked.
- The operations are set (0), delete (1), append to a list (2) and subtract from a list (3).
- A change is in effect when the answer comes.
- A resource that is named twice, or a setting that is named twice in it, is refused.
- A policy of the operator may refuse a change (POLICY_VIOLATION, `alter.config.policy.class.name`), but not
  that of a logger's level.
- With `validate_only` nothing changes.
- Unknown broker settings are stored and have no effect. The log says so.
- Levels of this broker's loggers last until it stops.

Version notes:

- v1 is flexible.
"""

from __future__ import annotations

import asyncio

from kafkapy.configs import loggers as broker_loggers
from kafkapy.configs.changes import Change
from kafkapy.configs.kind import ResourceType, check_broker_id
from kafkapy.handlers import authorize_configs
from kafkapy.handlers.context import RequestContext
from kafkapy.handlers.per_partition import answer_each
from kafkapy.loop.turns import counted
from kafkapy.protocol.errors import ErrorCode, KafkaError
from kafkapy.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from kafkapy.security.acls.model import Operation


async def handle(
    context: RequestContext, request: IncrementalAlterConfigsRequest
) -> IncrementalAlterConfigsResponse:
    """Change what can be changed."""
    counts = await context.broker.turns.finish(
        counted((resource.resource_type, resource.resource_name) for resource in request.resources)
    )
    responses = []
    for resource in request.resources:
        await asyncio.sleep(0)  # there may be thousands
        response = AlterConfigsResourceResponse(
            error_message=None,
            resource_type=resource.resource_type,
            resource_name=resource.resource_name,
        )
        try:
            if counts[resource.resource_type, resource.resource_name] > 1:
                raise KafkaError(ErrorCode.INVALID_REQUEST, "Each resource must appear at most once.")
            await _alter(context, resource, request.validate_only)
        except KafkaError as error:
            response.error_code, response.error_message = error.code, error.message
        responses.append(response)
    return IncrementalAlterConfigsResponse(responses=responses)


async def _alter(context: RequestContext, resource: AlterConfigsResource, validate_only: bool) -> None:
    authorize_configs.require(
        context, Operation.ALTER_CONFIGS, resource.resource_type, resource.resource_name
    )
    changes = await context.broker.turns.finish(answer_each(resource.configs, _change))
    if resource.resource_type == ResourceType.BROKER_LOGGER:
        check_broker_id(resource.resource_name, context.broker.node_id)
        broker_loggers.alter(changes, validate_only=validate_only)
        context.broker.measure_requests()
        return
    await context.broker.admin.configs.alter(
        resource.resource_type, resource.resource_name, changes, validate_only=validate_only
    )


def _change(config: AlterableConfig) -> Change:
    return Change(config.name, config.config_operation, config.value)
