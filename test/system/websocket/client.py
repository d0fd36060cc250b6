"""A WebSocket client on `websockets`. Prints a line of JSON for each thing that it has seen.

`talk`: messages of all kinds, and its own Close. `close`: which Close it gets at `/close/CODE`. `stay`: says that it is open, then waits for
its end. `refused`: the status of a handshake that is refused. `echo N`: answers each message with itself at `/0` to
`/N-1`, some at a time, until the other side ends.
"""
import asyncio, hashlib, json, os, ssl, sys

import websockets

AT_ONCE = 8

base, case, *arguments = sys.argv[1:]


def say(**what):
    print(json.dumps(what), flush=True)


def connect(path, **options):
    tls = ssl.create_default_context(cafile=os.environ['EDGE_CA'])
    tls.load_cert_chain(os.environ['EDGE_CERT'], os.environ['EDGE_KEY'])
    headers = {'Authorization': f'Bearer {os.environ["EDGE_TOKEN"]}'}
    if base.startswith('ws:'):
        tls = None
    return websockets.connect(base + path, ssl=tls, extra_headers=headers, max_size=None, **options)


async def there_and_back(ws, name, message, pieces=None):
    await ws.send(message if pieces is None else pieces)
    say(case=name, same=await ws.recv() == message)


async def talk():
    async with connect('/echo', subprotocols=['chat.v1', 'unknown']) as ws:
        say(case='opened', subprotocol=ws.subprotocol, extensions=[extension.name for extension in ws.extensions])
        await there_and_back(ws, 'text', 'Grüße, 世界 \U0001f30d')
        await there_and_back(ws, 'empty', b'')
        await there_and_back(ws, 'large', os.urandom(8 << 20))
        await there_and_back(ws, 'compressible', 'word ' * 1_000_000)
        parts = [os.urandom(size) for size in (1, 0, 70_000, 125, 126, 3)]
        await there_and_back(ws, 'fragments there', b''.join(parts), parts)
        await (await ws.ping(b'are you there'))
        say(case='pong', same=True)
        # Many under way at once.
        messages = [f'{i}' for i in range(2_000)]
        sending = asyncio.gather(*(ws.send(message) for message in messages))
        say(case='many', same=[await ws.recv() for _ in messages] == messages)
        await sending
        await ws.close(4002, 'enough')
    say(case='closed', code=ws.close_code, reason=ws.close_reason)
    async with connect('/pieces', compression=None) as ws:
        say(case='uncompressed', extensions=[extension.name for extension in ws.extensions])
        await there_and_back(ws, 'fragments back', os.urandom(50_500))


async def close():
    for code in (1000, 1001, 1011, 3000, 4999):
        async with connect(f'/close/{code}') as ws:
            await ws.wait_closed()
            say(case=f'{code}', code=ws.close_code, reason=ws.close_reason)


async def stay():
    async with connect('/echo') as ws:
        await there_and_back(ws, 'open', 'up')
        try:
            await ws.recv()
        except websockets.ConnectionClosed:
            pass
        say(case='ended', code=ws.close_code)


async def refused():
    try:
        async with connect('/echo'):
            say(case='refused', status=101)
    except websockets.InvalidStatusCode as error:
        say(case='refused', status=error.status_code)


async def echo():
    paths = iter(range(int(arguments[0])))

    async def loop():
        for path in paths:
            async with connect(f'/{path}', compression=None) as ws:
                try:
                    async for message in ws:
                        await ws.send(message)
                except websockets.ConnectionClosed:
                    pass

    await asyncio.gather(*(loop() for _ in range(AT_ONCE)))


asyncio.run({'talk': talk, 'close': close, 'stay': stay, 'refused': refused, 'echo': echo}[case]())
