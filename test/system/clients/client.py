"""httpx as a client of the proxy. What it does and prints is said in programs.ts."""
import asyncio, hashlib, json, os, ssl, sys
from urllib.parse import urlsplit

import httpx

MIB = bytes(i % 251 for i in range(1 << 20))
SMALL = MIB[: 1 << 14]
REQUESTS = 200
LOOPS = 4

base, protocol, mode = sys.argv[1:]


async def ask(client, method, path, body=None):
    """One request and its report. Returns whether there was a whole answer."""
    report = {'request': f'{method} {urlsplit(base).path}{path}'}
    try:
        response = await client.request(method, base + path, content=body)
        report |= {'status': response.status_code, 'digest': hashlib.sha256(response.content).hexdigest()}
    except (httpx.HTTPError, OSError) as error:
        report['error'] = repr(error)
    except Exception as error:
        # What is below httpx lets its own faults through: they are to be seen as such.
        report['error'] = f'not an error of httpx: {error!r}'
    print(json.dumps(report), flush=True)
    return 'error' not in report


async def exchange(client):
    await ask(client, 'GET', '/mib')
    await ask(client, 'POST', '/echo', MIB)
    for i in range(REQUESTS):
        await ask(client, 'GET', f'/n/{i}')


async def drain(client):
    await ask(client, 'GET', '/first')

    async def loop(number):
        i = 0
        while await ask(client, 'GET', f'/loop/{number}/{i}'):
            i += 1

    await asyncio.gather(
        *(ask(client, 'GET', f'/held/{i}') for i in range(2)),
        *(ask(client, 'POST', f'/held/{i}', SMALL) for i in range(2, 4)),
        *(loop(number) for number in range(LOOPS)),
    )


async def upload(client):
    await ask(client, 'POST', '/upload', bytes(int(os.environ['EDGE_UPLOAD'])))


async def main():
    tls = ssl.create_default_context(cafile=os.environ['EDGE_CA'])
    tls.load_cert_chain(os.environ['EDGE_CERT'], os.environ['EDGE_KEY'])
    async with httpx.AsyncClient(
        verify=tls,
        http1=protocol == 'h1',
        http2=protocol == 'h2',
        headers={'authorization': 'Bearer ' + os.environ['EDGE_TOKEN']},
        timeout=30,
        trust_env=False,
    ) as client:
        await {'exchange': exchange, 'drain': drain, 'upload': upload}[mode](client)


asyncio.run(main())
