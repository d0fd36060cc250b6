#!/usr/bin/env python3
"""The memory of an idle client connection: resident memory of the proxy before and after 1,500 mTLS connections with one request
each, in KiB per connection. This project, and HAProxy and the reference implementation if they are installed; each figure is of a
process of its own. `settled` is the value after some seconds without change: runtimes collect garbage when they are idle.

  idle-memory.py                      # this checkout, built
  idle-memory.py before=../before after=.   # checkouts instead of this one

Needs compare.py next to it, and what that needs except nginx as a proxy. Loopback only.
"""
import argparse, os, pathlib, re, resource, shutil, signal, socket, ssl, struct, subprocess, tempfile, time

import proxies

PORT = 18460


def h1(token):
    head = f'GET /svc-a/hello HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {token}\r\n\r\n'.encode()
    return head, lambda answer: answer.startswith(b'HTTP/1.1 200') and answer.endswith(b'}')


def h2(token):
    def literal(name, value):  # RFC 7541 section 6.2.2, no Huffman code
        def text(s, bits):
            n, most = len(s), (1 << bits) - 1
            if n < most: return bytes([n]) + s
            out, n = bytes([most]), n - most
            while n >= 128: out, n = out + bytes([n % 128 + 128]), n // 128
            return out + bytes([n]) + s
        return b'\0' + text(name, 7) + text(value, 7)

    frame = lambda kind, flags, stream, payload: struct.pack('>I', len(payload))[1:] + bytes([kind, flags]) + struct.pack('>I', stream) + payload
    block = b''.join(literal(n, v) for n, v in ((b':method', b'GET'), (b':scheme', b'https'), (b':path', b'/svc-a/hello'),
                                                (b':authority', b'localhost'), (b'authorization', b'Bearer ' + token.encode())))
    opening = b'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n' + frame(4, 0, 0, b'') + frame(1, 5, 1, block)

    def is_whole(answer):
        body, at = b'', 0
        while at + 9 <= len(answer):
            end = at + 9 + int.from_bytes(answer[at:at + 3], 'big')
            kind, flags, stream = answer[at + 3], answer[at + 4], int.from_bytes(answer[at + 5:at + 9], 'big')
            if kind == 0: body += answer[at + 9:end]
            if kind in (0, 1) and flags & 1 and stream == 1 and end <= len(answer): return b'world' in body
            at = end
        return False
    return opening, is_whole


def connect(d, port, alpn, opening, is_whole):
    raw = socket.create_connection(('127.0.0.1', port))
    raw.settimeout(20)
    s = context(d, alpn).wrap_socket(raw, server_hostname='localhost')
    if s.selected_alpn_protocol() != alpn: raise SystemExit(f'no {alpn}')
    s.sendall(opening)
    answer = b''
    while not is_whole(answer):
        more = s.recv(65536)
        if not more: raise SystemExit(f'port {port}: closed after {answer!r}')
        answer += more
    return s


def context(d, alpn):
    if alpn not in contexts:
        c = contexts[alpn] = ssl.create_default_context(cafile=d / 'ca.crt')
        # The bench's CA certificate has fewer extensions than Python 3.13 requires.
        c.verify_flags &= ~getattr(ssl, 'VERIFY_X509_STRICT', 0)
        c.load_cert_chain(d / 'client.crt', d / 'client.key')
        c.set_alpn_protocols([alpn])
    return contexts[alpn]


contexts = {}


def resident(pid):
    return int(re.search(r'VmRSS:\s+(\d+)', open(f'/proc/{pid}/status').read()).group(1))


def settled(pid):
    """Settled: the last 16 readings, two per second, differ by at most 256 KiB; after 60 s at the latest."""
    seen = []
    for _ in range(120):
        seen.append(resident(pid))
        if len(seen) >= 16 and max(seen[-16:]) - min(seen[-16:]) < 256: break
        time.sleep(.5)
    return seen[-1]


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument('versions', nargs='*', default=['ours=.'], metavar='NAME=CHECKOUT')
    ap.add_argument('--connections', type=int, default=1500)
    ap.add_argument('--proto', choices=['h1', 'h2'], action='append')
    ap.add_argument('--alone', action='store_true', help='not beside HAProxy and the reference implementation')
    a = ap.parse_args()
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    d = pathlib.Path(tempfile.mkdtemp(prefix='proxy-idle-'))
    quiet = dict(stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    upstream = None
    try:
        token = proxies.make_pki(d)()
        proxies.write_configs(d)
        starts = {}
        for version in a.versions:
            name, _, checkout = version.partition('=')
            root = pathlib.Path(checkout).resolve()
            starts[name] = (PORT, [str(root / 'node_modules/.bin/node'), str(root / proxies.command_of(root)), '--config', str(d / 'proxy.toml'),
                                   '--bind', f'127.0.0.1:{PORT}', '--metrics-bind', f'127.0.0.1:{PORT + 1}', '--workers', '1'])
        if not a.alone and shutil.which('haproxy'): starts['haproxy'] = (proxies.FULL, ['haproxy', '-db', '-f', str(d / 'full.cfg')])
        ferryman = shutil.which('ferryman-edge-server')
        if not a.alone and ferryman:
            starts['ferryman'] = (PORT, [ferryman, '--config', str(d / 'proxy.toml'), '--bind', f'127.0.0.1:{PORT}', '--metrics-bind',
                                         f'127.0.0.1:{PORT + 1}'])
        upstream = subprocess.Popen(['nginx', '-g', 'daemon off;', '-c', str(d / 'up.conf')], **quiet)
        time.sleep(.5)
        print(f'{a.connections} idle connections after one request each, one worker; KiB')
        print(f'{"":18s}{"before":>10s}{"after":>10s}{"settled":>10s}{"each":>8s}{"each, settled":>15s}')
        for name, (port, command) in starts.items():
            for proto in a.proto or ['h1', 'h2']:
                alpn, (opening, is_whole) = {'h1': ('http/1.1', h1(token)), 'h2': ('h2', h2(token))}[proto]
                proxy = subprocess.Popen(command, env=dict(os.environ, RUST_LOG='warn', TOKIO_WORKER_THREADS='1'), **quiet)
                connections = []
                try:
                    for _ in range(100):
                        if socket.socket().connect_ex(('127.0.0.1', port)) == 0: break
                        time.sleep(.1)
                    time.sleep(1)
                    # The first connections load code and open the upstream's connection.
                    for _ in range(20): connect(d, port, alpn, opening, is_whole).close()
                    time.sleep(1)
                    before = resident(proxy.pid)
                    for _ in range(a.connections): connections.append(connect(d, port, alpn, opening, is_whole))
                    after = resident(proxy.pid)
                    last = settled(proxy.pid)
                    if proxy.poll() is not None: raise SystemExit(f'{name} has ended')
                    each = lambda kib: (kib - before) / a.connections
                    print(f'{name + " " + proto:18s}{before:10d}{after:10d}{last:10d}{each(after):8.1f}{each(last):15.1f}', flush=True)
                finally:
                    for s in connections: s.close()
                    proxy.send_signal(signal.SIGTERM)
                    try: proxy.wait(5)
                    except subprocess.TimeoutExpired: proxy.kill(); proxy.wait()
    finally:
        if upstream is not None: upstream.terminate(); upstream.wait()
        shutil.rmtree(d, ignore_errors=True)


if __name__ == '__main__':
    main()
