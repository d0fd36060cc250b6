#!/usr/bin/env python3
"""Compares versions or settings of this project: all are loaded at the same time, so that disturbances of the machine affect all of them.
CPU microseconds per request, medians; ratios and differences are medians over rounds.

Two processes of one version may differ by some percent for their whole life, so each version is started several times, in another
order each time. "+/-" is the standard error of the processes' medians: a difference below twice that is not significant.

  paired.py NAME=CHECKOUT[+identity][+h2][+N][,TOML]…  # built checkouts; TOML goes in front of the routes, \\n for a new line
  paired.py --proto h2 --conns 16 --streams 16 before=../before after=. 'with its log=.,[log]\\naccess = "all"'
  paired.py --vary 1000 before=../before after=.   # no two requests alike: tokens of 1,000 tenants, unique ids in each request (needs Go)
  paired.py one=. fifty=.+50 hash='.+50,balance = "hash"'   # the cost of many addresses; TOML then belongs to their [[upstreams]]
  paired.py one=. fifty=.+50 --beside haproxy haproxy+50    # and their cost for HAProxy
  paired.py before=../before after=. 'identity=.+identity'   # the cost of bound tokens and client_cert; +identity and TOML: .+identity,TOML
  paired.py plain=. 'traced=.,[trace]\\nendpoint = "http://127.0.0.1:9/v1/traces"\\nratio = 0'   # a request that is not sampled
  paired.py h1=. h2=.+h2 --beside haproxy haproxy+h2   # the same requests to an HTTP/1.1 and to an HTTP/2 upstream
  paired.py plain=. small=. --set small:GLIBC_TUNABLES=glibc.malloc.tcache_count=512   # a variable of one version's environment

+identity: one [[issuers]] instead of [jwt] with certificate_bound = "required", and client_cert = "leaf" on the route. The token of all
requests is bound to the client's certificate; versions without +identity treat it as an ordinary token.
+h2: the route leads to an upstream that speaks HTTP/2, as all of them do with --h2-upstream.
+N: the route leads to an [[upstreams]] with N addresses, 127.0.1.1 and on, all of the same server. haproxy+N: as many `server` lines,
with the same choice as ours, the power of two choices.

Needs compare.py next to it, and what that needs. Loopback only; the proxies run on CPU 0, load and upstream on CPU 1.
"""
import argparse, base64, hashlib, os, pathlib, re, shutil, signal, socket, statistics, subprocess, tempfile, time
from concurrent.futures import ThreadPoolExecutor

import compare, proxies


def thumbprint(d):
    pem = (d / 'client.crt').read_text().split('-----')[2]
    return base64.urlsafe_b64encode(hashlib.sha256(base64.b64decode(pem)).digest()).rstrip(b'=').decode()


def with_identity(text):
    text = text.replace('[jwt]\njwks_path', '[[issuers]]\nalgorithms = ["RS256"]\ncertificate_bound = "required"\npublic_key_path')
    return text.replace('[[routes]]', '[[routes]]\nclient_cert = "leaf"')


def many(count, up=proxies.UP):
    """Addresses, all of one server. @param up its port."""
    return [f'127.0.1.{i + 1}:{up}' for i in range(count)]


def listen(d, count):
    """Makes nginx listen on them, too, for HTTP/1.1 and HTTP/2."""
    plain, h2 = f'listen 127.0.0.1:{proxies.UP};', f'listen 127.0.0.1:{proxies.UP_H2} http2;'
    proxies.edit(d / 'up.conf', plain, ' '.join([plain, *(f'listen {address};' for address in many(count))]),
                 h2, ' '.join([h2, *(f'listen {address} http2;' for address in many(count, proxies.UP_H2))]))


def with_addresses(text, count, keys):
    """Text of a configuration of this project, with another upstream."""
    scheme, up = re.search(r'upstream = "(\w+)://127.0.0.1:(\d+)"', text).groups()
    text = re.sub(r'upstream = "\w+://[^"]+"', 'upstream = "many"', text)
    if scheme == 'h2c': keys += '\nprotocol = "h2"'
    addresses = ', '.join(f'"{address}"' for address in many(count, up))
    return text.replace('[[routes]]', f'[[upstreams]]\nname = "many"\naddresses = [{addresses}]\n{keys}\n[[routes]]', 1)


def addresses_of(presets):
    """Number of addresses; 0: the address of the route's URL."""
    return next((int(preset) for preset in presets if preset.isdigit()), 0)


def haproxy_with_addresses(text, count, port):
    line, up, more = re.search(r'  server s1 127.0.0.1:(\d+)(.*)\n', text).group(0, 1, 2)
    lines = ''.join(f'  server s{i} {address}{more}\n' for i, address in enumerate(many(count, up)))
    return text.replace(line, '  balance random(2)\n' + lines).replace(f':{proxies.FULL} ', f':{port} ')


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument('versions', nargs='+', metavar='NAME=CHECKOUT[+identity][+h2][+N][,TOML]')
    ap.add_argument('--proto', choices=['h1', 'h2'], default='h1')
    ap.add_argument('--conns', default='64')
    ap.add_argument('--streams', default='1')
    ap.add_argument('--secs', type=int, default=2, help='of a round')
    ap.add_argument('--processes', type=int, default=4, help='how often each version is started')
    ap.add_argument('--handshakes', action='store_true', help='new mTLS connections instead')
    ap.add_argument('--beside', action='extend', nargs='+', default=[], metavar='haproxy[+h2][+N]|ferryman', help='also load them in each round')
    ap.add_argument('--set', action='append', default=[], metavar='NAME:VARIABLE=VALUE')
    ap.add_argument('--rounds', type=int, default=6, help='with each process')
    ap.add_argument('--path', default='/svc-a/hello', help='/svc-a/1m: 1 MiB responses')
    ap.add_argument('--paths', type=int, default=1, help='this many paths in turn')
    ap.add_argument('--vary', type=int, default=0, metavar='TENANTS', help='no two requests alike: tokens of this many tenants, 1,000 paths, unique ids')
    ap.add_argument('--h2-upstream', action='store_true', help='an upstream that speaks HTTP/2')
    ap.add_argument('--unary', action='store_true', help='gRPC calls with 100 bytes each way; implies --h2-upstream')
    ap.add_argument('--websocket', action='store_true', help='messages of 100 bytes each way over WebSockets')
    ap.add_argument('--upload', type=int, default=0, metavar='BYTES', help='body of each request')
    a = ap.parse_args()
    d = pathlib.Path(tempfile.mkdtemp(prefix='proxy-paired-'))
    settings = [(name, *setting.split('=', 1)) for name, setting in (s.split(':', 1) for s in a.set)]
    running = []

    def on(cpu, *cmd, **more):
        running.append(subprocess.Popen(['taskset', '-c', str(cpu), *cmd], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                                        env=dict(os.environ, RUST_LOG='warn', **more)))
        return running[-1]

    def stop(procs):
        for p in procs: p.send_signal(signal.SIGTERM)
        for p in procs:
            try: p.wait(5)
            except subprocess.TimeoutExpired: p.kill()

    try:
        mint = proxies.make_pki(d)
        token = mint(cnf={'x5t#S256': thumbprint(d)}) if any('+identity' in v for v in a.versions) else mint()
        proxies.write_configs(d)
        proxies.sh('gcc', '-shared', '-fPIC', '-o', str(d / 'cc.so'), str(proxies.HERE / 'client_cert.c'), '-ldl')
        counts = [int(n) for n in re.findall(r'\+(\d+)', ' '.join(a.versions + a.beside))]
        listen(d, max(counts, default=0))
        on(1, 'nginx', '-g', 'daemon off;', '-c', str(d / 'up.conf'))
        if a.unary: a.h2_upstream, a.path = True, '/svc-a/unary'
        if a.h2_upstream or a.websocket: proxies.lead_to(d, 'h2' if a.h2_upstream else 'websocket')
        if a.websocket:
            compare.build(d, 'websocket')
            on(1, str(d / 'websocket'), '-serve', f'127.0.0.1:{proxies.UP_WS}', GOMAXPROCS='1')
        background = len(running)
        time.sleep(.5)
        versions = []
        for i, version in enumerate(a.versions):
            name, _, rest = version.partition('=')
            checkout, _, more = rest.partition(',')
            checkout, *presets = checkout.split('+')
            text = (d / 'proxy.toml').read_text()
            more = more.replace('\\n', '\n')
            if 'h2' in presets: text = text.replace(f'http://127.0.0.1:{proxies.UP}', f'h2c://127.0.0.1:{proxies.UP_H2}')
            count = addresses_of(presets)
            text = with_addresses(text, count, more) if count else text.replace('[[routes]]', more + '\n[[routes]]', 1)
            (d / f'{i}.toml').write_text(with_identity(text) if 'identity' in presets else text)
            versions.append((name, pathlib.Path(checkout).resolve(), d / f'{i}.toml'))
        if a.vary: compare.build(d, 'vary')
        body = compare.unary(d) if a.unary else compare.upload(d, a.upload)
        if a.upload: a.path = '/svc-a/upload'
        env = dict(os.environ, CLIENT_CERT=str(d / 'client.crt'), CLIENT_KEY=str(d / 'client.key'), LD_PRELOAD=str(d / 'cc.so'))
        names = [name for name, _, _ in versions] + a.beside
        cost = {name: [] for name in names}
        resident = {}
        port = {'haproxy': proxies.FULL, 'ferryman': proxies.FERRYMAN}
        haproxies = {name: d / f'{name}.cfg' for name in a.beside if name.startswith('haproxy')}
        for i, (name, cfg) in enumerate(haproxies.items()):
            port[name] = proxies.FULL + 200 * i
            _, *presets = name.split('+')
            count = addresses_of(presets)
            full = (d / 'full.cfg').read_text()
            if 'h2' in presets: full = full.replace(f':{proxies.UP} check', f':{proxies.UP_H2} proto h2 check')
            cfg.write_text(haproxy_with_addresses(full, count, port[name]) if count else full.replace(f':{proxies.FULL} ', f':{port[name]} '))

        def start(turn):
            """Starts all of them; each time another one comes first, and has the first port."""
            procs = {}
            for at, (name, root, config) in enumerate(versions[turn % len(versions):] + versions[:turn % len(versions)]):
                port[name] = 19000 + at
                procs[name] = on(0, str(root / 'node_modules/.bin/node'), str(root / proxies.command_of(root)), '--config', str(config),
                                 '--bind', f'127.0.0.1:{port[name]}', '--metrics-bind', f'127.0.0.1:{19100 + at}', '--workers', '1',
                                 **{variable: value for of, variable, value in settings if of == name})
            for name, cfg in haproxies.items(): procs[name] = on(0, 'haproxy', '-db', '-f', str(cfg))
            if 'ferryman' in a.beside:
                procs['ferryman'] = on(0, shutil.which('ferryman-edge-server'), '--config', str(d / 'proxy.toml'), '--bind',
                                       f'127.0.0.1:{proxies.FERRYMAN}', '--metrics-bind', f'127.0.0.1:{proxies.FERRYMAN + 1}')
            for name in procs: await_listener(port[name], procs[name])
            time.sleep(1)
            return procs

        def uris(name):
            uri = f'https://127.0.0.1:{port[name]}{a.path}'
            if a.paths == 1: return [uri]
            (d / f'paths-{name}').write_text(''.join(f'{uri}/{i:06d}?page={i}\n' for i in range(a.paths)))
            return ['-i', str(d / f'paths-{name}')]

        def loads(secs):
            """Loads all of them at once. @returns the number of requests, or connections, that each has served."""
            if a.handshakes:
                with ThreadPoolExecutor(len(names)) as pool:
                    return dict(zip(names, pool.map(lambda name: compare.handshakes(d, port[name], secs), names)))
            if a.vary:
                clients = {name: compare.vary(d, port[name], proto=a.proto, conns=a.conns, streams=a.streams, tenants=a.vary, secs=secs) for name in names}
                return {name: compare.varied(client, name)['ok'] for name, client in clients.items()}
            # A number of uploads: with a duration, h2load sometimes never ends a connection that uploads over HTTP/1.1.
            length = ['-n', str(max(int(a.conns), int(secs * 2 ** 28) // a.upload))] if a.upload else ['-D', str(secs)]
            clients = {name: subprocess.Popen(['taskset', '-c', '1', 'h2load', *(['--h1'] if a.proto == 'h1' else []), '-c', a.conns, '-m', a.streams,
                                               *length, '-t', '1', '-H', 'authorization: Bearer ' + token, *body, *uris(name)],
                                              env=env, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) for name in names}
            outputs = {name: client.communicate()[0] for name, client in clients.items()}
            return {name: answered(name, out) for name, out in outputs.items()}

        def messages(sockets):
            with ThreadPoolExecutor(len(names)) as pool:
                return dict(zip(sockets, pool.map(lambda name: compare.varied(sockets[name], name, '\n')['ok'], sockets)))

        for turn in range(a.processes):
            procs = start(turn)
            if a.websocket: messages({name: compare.web_sockets(d, port[name], token, a.conns, secs=len(names)) for name in names})
            else: loads(len(names))  # until what they do often is compiled
            for r in range(a.rounds):
                sockets = {name: compare.web_sockets(d, port[name], token, a.conns, secs=a.secs) for name in names if a.websocket}
                before = {name: cpu_us(procs[name].pid) for name in names}
                done = messages(sockets) if a.websocket else loads(a.secs)
                for name in names: cost[name].append((cpu_us(procs[name].pid) - before[name]) / done[name])
            resident = {name: compare.resident_mib(procs[name].pid) for name in names}
            stop(procs.values())
            running[background:] = []
        first = cost[names[0]]
        what = 'new mTLS connections' if a.handshakes else f'{a.proto} {a.path}, {a.conns} connections x {a.streams}'
        if a.websocket: what = f'messages of 100 bytes each way, {a.conns} WebSockets'
        elif a.h2_upstream: what += ', HTTP/2 upstream'
        if a.paths > 1: what += f', {a.paths} paths'
        if a.vary: what += f', {a.vary} tenants, no two requests alike'
        print(f'{what}; {a.processes} processes of each, {a.rounds} rounds of {a.secs} s; CPU us each')
        print(f'{"":20s}{"median":>8s}{"x first":>9s}{"+/-":>7s}{"- first":>9s}{"RSS MiB":>9s}  x first by process')
        for name in names:
            ratios = [x / y for x, y in zip(cost[name], first)]
            by_process = [statistics.median(ratios[i:i + a.rounds]) for i in range(0, len(ratios), a.rounds)]
            more = statistics.median(x - y for x, y in zip(cost[name], first))
            print(f'{name:20s}{statistics.median(cost[name]):8.1f}{statistics.median(ratios):9.3f}{uncertainty(by_process):7.3f}{more:9.1f}'
                  f'{resident[name]:9.1f}  {" ".join(f"{x:.3f}" for x in by_process)}')
    finally:
        stop(running)
        shutil.rmtree(d, ignore_errors=True)


def cpu_us(pid):
    """CPU time of all threads of a process. /proc/PID/stat has it in steps of 10 ms; this is CPUCLOCK_SCHED of clock_getcpuclockid(3)."""
    return time.clock_gettime_ns(~pid << 3 | 2) / 1000


def answered(name, out):
    done = re.search(r'codes: ([1-9]\d*) 2xx, 0 3xx, 0 4xx, 0 5xx', out)
    if done is None: raise SystemExit(f'{name}: not all were answered\n{out}')
    return int(done.group(1))


def uncertainty(by_process):
    """Standard error of their mean. Processes of one version differ from each other by more than the rounds of one process do."""
    return statistics.stdev(by_process) / len(by_process) ** .5 if len(by_process) > 1 else 0


def await_listener(port, proc):
    for _ in range(300):
        if proc.poll() is not None: raise SystemExit(f'port {port}: the proxy has ended')
        if socket.socket().connect_ex(('127.0.0.1', port)) == 0: return
        time.sleep(.1)
    raise SystemExit(f'port {port}: nobody listens')


if __name__ == '__main__':
    main()
