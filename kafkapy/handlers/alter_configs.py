"""AlterConfigs: replace all settings of topics, brokers and others.

Versions: 0-2.

Behaviour:

- The settings given are all that the resource has afterwards. What is left out goes back to its default.
- That loses what another client has set meanwhile, which is why there is IncrementalAlterConfigs.
- Everything else is as in IncrementalAlterConfigs.

Version notes:

- v2 is flexible.
"""

from __future__ import annotations

import asyncio

from kafkapy.handlers import authorize_configs
from kafkapy.handlers.context import RequestContext
from kafkapy.loop.turns import Steps, counted
from kafkapy.protocol.errors import ErrorCode, KafkaError
from kafkapy.protocol.messages.alter_configs import (
    AlterConfigsRequest,
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    AlterConfigsResponse,
)
from kafkapy.security.acls.model import Operation


async def handle(context: RequestContext, request: AlterConfigsRequest) -> AlterConfigsResponse:
    """Replace what can be replaced."""
    turns = context.broker.turns
    counts = await turns.finish(
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
            authorize_configs.require(
                context, Operation.ALTER_CONFIGS, resource.resource_type, resource.resource_name
            )
            await context.broker.admin.configs.replace(
                resource.resource_type,
                resource.resource_name,
                await turns.finish(_configs(resource)),
                validate_only=request.validate_only,
            )
        except KafkaError as error:
            response.error_code, response.error_message = error.code, error.message
        responses.append(response)
    return AlterConfigsResponse(responses=responses)


def _configs(resource: AlterConfigsResource) -> Steps[dict[str, str]]:
    configs: dict[str, str] = {}
    nulls: dict[str, None] = {}
    for config in resource.configs:
        yield
        if config.name in configs or config.name in nulls:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "Error due to duplicate config keys")
        if config.value is None:
            nulls[config.name] = None
        else:
            configs[config.name] = config.value
    if nulls:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"Null value not supported for : {', '.join(nulls)}")
    return configs
