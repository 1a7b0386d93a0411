"""The official A2A SDK for Python as a client of agent-service: one check by name.

    AGENT_URL=http://127.0.0.1:8787 AGENT_TOKEN=... python sdk_client.py CHECK

The SDK finds the interface and the security scheme on the card by itself; nothing here knows a
path of the service. Exit 0 when all assertions of the check held.
"""

from __future__ import annotations

import asyncio
import os
import sys
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import httpx
from a2a.client import ClientCallContext, ClientConfig, create_client
from a2a.client.auth import AuthInterceptor, CredentialService
from a2a.client.card_resolver import A2ACardResolver
from a2a.client.client import Client
from a2a.types import a2a_pb2 as pb
from a2a.utils import errors

URL = os.environ["AGENT_URL"]
TOKEN = os.environ["AGENT_TOKEN"]


class Token(CredentialService):
    """Our token for whatever scheme the card asks for."""

    def __init__(self, token: str) -> None:
        self._token = token

    async def get_credentials(self, name: str, context: ClientCallContext | None) -> str | None:
        assert name == "bearer", name
        return self._token


@asynccontextmanager
async def client(token: str = TOKEN) -> AsyncIterator[Client]:
    async with httpx.AsyncClient(timeout=30) as http:
        config = ClientConfig(
            streaming=False, httpx_client=http, supported_protocol_bindings=["HTTP+JSON"]
        )
        yield await create_client(URL, config, interceptors=[AuthInterceptor(Token(token))])


def message(text: str, **more: object) -> pb.Message:
    return pb.Message(
        message_id=str(uuid.uuid4()), role=pb.ROLE_USER, parts=[pb.Part(text=text)], **more
    )


async def send(agent: Client, asked: pb.Message, **configuration: object) -> pb.Task:
    request = pb.SendMessageRequest(
        message=asked, configuration=pb.SendMessageConfiguration(**configuration)
    )
    answers = [answer async for answer in agent.send_message(request)]
    assert len(answers) == 1, answers
    assert answers[0].HasField("task"), answers
    return answers[0].task


async def until_ended(agent: Client, task_id: str) -> pb.Task:
    ended = {
        pb.TASK_STATE_COMPLETED,
        pb.TASK_STATE_FAILED,
        pb.TASK_STATE_CANCELED,
        pb.TASK_STATE_REJECTED,
    }
    async with asyncio.timeout(30):
        while True:
            task = await agent.get_task(pb.GetTaskRequest(id=task_id))
            if task.status.state in ended:
                return task
            await asyncio.sleep(0.05)


async def raises(kind: type[Exception], call: Awaitable[object]) -> None:
    try:
        answer = await call
    except kind:
        return
    raise AssertionError(f"{kind.__name__} was expected, and this came: {answer}")


async def card() -> None:
    async with httpx.AsyncClient() as http:
        got = await A2ACardResolver(http, URL).get_agent_card()
    assert got.name == "tested"
    assert [i.protocol_binding for i in got.supported_interfaces] == ["HTTP+JSON"]
    assert got.supported_interfaces[0].url == URL
    assert not got.capabilities.streaming
    assert not got.capabilities.push_notifications
    assert got.security_schemes["bearer"].http_auth_security_scheme.scheme.lower() == "bearer"
    assert len(got.skills) == 1


async def send_blocking() -> None:
    async with client() as agent:
        task = await send(agent, message("hello", context_id="sdk"))
        assert task.status.state == pb.TASK_STATE_COMPLETED, task
        assert task.context_id == "sdk"
        assert task.artifacts[0].parts[0].text == "done: hello"
        assert task.history[0].parts[0].text == "hello"
        failed = await send(agent, message("fail so"))
        assert failed.status.state == pb.TASK_STATE_FAILED, failed
        assert failed.status.message.parts[0].text == "so"


async def send_and_poll() -> None:
    async with client() as agent:
        task = await send(agent, message("hello"), return_immediately=True)
        assert task.status.state in (pb.TASK_STATE_SUBMITTED, pb.TASK_STATE_WORKING), task
        task = await until_ended(agent, task.id)
        assert task.status.state == pb.TASK_STATE_COMPLETED, task
        bare = await agent.get_task(pb.GetTaskRequest(id=task.id, history_length=0))
        assert not bare.history, bare


async def list_with_pages() -> None:
    async with client() as agent:
        made = [(await send(agent, message(f"n{n}", context_id="paged"))).id for n in range(7)]
        await send(agent, message("elsewhere", context_id="other"))
        seen, token = [], ""
        while True:
            page = await agent.list_tasks(
                pb.ListTasksRequest(context_id="paged", page_size=3, page_token=token)
            )
            assert page.total_size == 7, page
            assert all(not task.artifacts for task in page.tasks)
            seen += [task.id for task in page.tasks]
            token = page.next_page_token
            if not token:
                break
        assert seen == made[::-1], (seen, made)
        page = await agent.list_tasks(
            pb.ListTasksRequest(
                context_id="paged", status=pb.TASK_STATE_COMPLETED, include_artifacts=True
            )
        )
        assert all(task.artifacts for task in page.tasks), page
        middle = next(task for task in page.tasks if task.id == made[3])
        after = pb.ListTasksRequest(
            context_id="paged", status_timestamp_after=middle.status.timestamp
        )
        later = {task.id for task in (await agent.list_tasks(after)).tasks}
        assert later >= set(made[3:]), later


async def cancel() -> None:
    async with client() as agent:
        task = await send(agent, message("block sdk"), return_immediately=True)
        canceled = await agent.cancel_task(pb.CancelTaskRequest(id=task.id))
        assert canceled.status.state == pb.TASK_STATE_CANCELED, canceled
        again = await agent.cancel_task(pb.CancelTaskRequest(id=task.id))
        assert again == canceled


async def task_errors() -> None:
    async with client() as agent:
        await raises(errors.TaskNotFoundError, agent.get_task(pb.GetTaskRequest(id="unknown")))
        await raises(
            errors.TaskNotFoundError, agent.cancel_task(pb.CancelTaskRequest(id="unknown"))
        )
        await raises(
            errors.TaskNotFoundError, send(agent, message("more", task_id="unknown"))
        )
        task = await send(agent, message("hello"))
        await raises(
            errors.TaskNotCancelableError, agent.cancel_task(pb.CancelTaskRequest(id=task.id))
        )
        await raises(
            errors.UnsupportedOperationError, send(agent, message("more", task_id=task.id))
        )


async def request_errors() -> None:
    async with client() as agent:
        await raises(errors.InvalidParamsError, send(agent, message("")))
        await raises(
            errors.InvalidParamsError, agent.list_tasks(pb.ListTasksRequest(page_size=101))
        )
        await raises(
            errors.InvalidParamsError, agent.list_tasks(pb.ListTasksRequest(page_token="x"))
        )
        url = pb.Message(
            message_id="m", role=pb.ROLE_USER, parts=[pb.Part(url="https://example.org")]
        )
        await raises(errors.ContentTypeNotSupportedError, send(agent, url))
        await raises(
            errors.ContentTypeNotSupportedError,
            send(agent, message("x"), accepted_output_modes=["image/png"]),
        )
        push = pb.TaskPushNotificationConfig(url="https://example.org/hook")
        await raises(
            errors.PushNotificationNotSupportedError,
            send(agent, message("x"), task_push_notification_config=push),
        )


async def wrong_token() -> None:
    async with client("not-the-token-0123456789") as agent:
        await raises(Exception, agent.get_task(pb.GetTaskRequest(id="unknown")))
        try:
            await agent.get_task(pb.GetTaskRequest(id="unknown"))
        except errors.TaskNotFoundError as error:
            raise AssertionError("a stranger learns that a task does not exist") from error
        except Exception as error:  # noqa: BLE001  the SDK has no type of its own for a 401
            assert "401" in str(error), error


CHECKS: dict[str, Callable[[], Awaitable[None]]] = {
    check.__name__: check
    for check in (
        card,
        send_blocking,
        send_and_poll,
        list_with_pages,
        cancel,
        task_errors,
        request_errors,
        wrong_token,
    )
}

if __name__ == "__main__":
    asyncio.run(CHECKS[sys.argv[1]]())
