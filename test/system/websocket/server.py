"""A WebSocket server on `websockets`, as an upstream. `/echo` answers each message with itself, `/pieces` with itself in
fragments, `/close/CODE` closes with that code and a reason. Prints its port."""
import asyncio, http

import websockets


async def serve(ws, path):
    where = path.split('/')
    if where[-2] == 'close':
        await ws.close(int(where[-1]), 'as asked')
        return
    async for message in ws:
        step = 1000 if where[-1] == 'pieces' else len(message)
        if len(message) > step:
            await ws.send([message[i : i + step] for i in range(0, len(message), step)])
        else:
            await ws.send(message)


async def answer(path, headers):
    """Health probes are plain HTTP."""
    if headers.get('upgrade') is None:
        return http.HTTPStatus.OK, [], b'ok'


def choose(offered, ours):
    return next((name for name in ours if name in offered), None)


async def main():
    async with websockets.serve(
        serve,
        '127.0.0.1',
        0,
        process_request=answer,
        subprotocols=['chat.v2', 'chat.v1'],
        select_subprotocol=choose,
        max_size=None,
    ) as server:
        print(server.sockets[0].getsockname()[1], flush=True)
        await asyncio.Future()


asyncio.run(main())
