#!/usr/bin/env python3
"""Versions or settings of this project against each other: all up at the same time, rounds in turns, so that both members of a pair
have the same neighbours. CPU microseconds a request, medians; ratios and differences are medians over pairs.

  paired.py NAME=CHECKOUT[+identity|+N][,TOML]…  # built checkouts; TOML goes in front of the routes, \\n for a new line
  paired.py --proto h2 --conns 16 --streams 16 before=../before after=. 'with its log=.,[log]\\naccess = "all"'
  paired.py one=. fifty=.+50 hash='.+50,balance = "hash"'   # what many addresses cost; TOML then belongs to their [[upstreams]]
  paired.py before=../before after=. 'identity=.+identity'   # what bound tokens and client_cert cost; +identity and TOML: .+identity,TOML
  paired.py plain=. small=. --set small:GLIBC_TUNABLES=glibc.malloc.tcache_count=512   # a variable of one version's environment

+identity: one [[issuers]] in place of [jwt] with certificate_bound = "required", and client_cert = "leaf" on the route. The token of all
requests is bound to the client's certificate; whoever does not look at that takes it for an ordinary one.
+N: the route leads to an [[upstreams]] with N addresses, 127.0.1.1 and on, all of the same server.

Needs what compare.py needs, beside it. Loopback only; the proxies run on CPU 0, load and upstream on CPU 1.
"""
import argparse, base64, hashlib, os, pathlib, re, shutil, signal, socket, statistics, subprocess, tempfile, time

import compare


def thumbprint(d):
    pem = (d / 'client.crt').read_text().split('-----')[2]
    return base64.urlsafe_b64encode(hashlib.sha256(base64.b64decode(pem)).digest()).rstrip(b'=').decode()


def with_identity(text):
    text = text.replace('[jwt]\njwks_path', '[[issuers]]\nalgorithms = ["RS256"]\ncertificate_bound = "required"\npublic_key_path')
    return text.replace('[[routes]]', '[[routes]]\nclient_cert = "leaf"')


def many(count):
    return [f'127.0.1.{i + 1}:{compare.UP}' for i in range(count)]


def with_addresses(text, count, keys):
    text = text.replace(f'upstream = "http://127.0.0.1:{compare.UP}"', 'upstream = "many"')
    addresses = ', '.join(f'"{address}"' for address in many(count))
    return text.replace('[[routes]]', f'[[upstreams]]\nname = "many"\naddresses = [{addresses}]\n{keys}\n[[routes]]', 1)


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument('versions', nargs='+', metavar='NAME=CHECKOUT[+identity|+N][,TOML]')
    ap.add_argument('--proto', choices=['h1', 'h2'], default='h1')
    ap.add_argument('--conns', default='64')
    ap.add_argument('--streams', default='1')
    ap.add_argument('--requests', default='20000', help='in a round')
    ap.add_argument('--handshakes', action='store_true', help='new mTLS connections instead, for 1 s in a round')
    ap.add_argument('--beside', action='append', default=[], choices=['haproxy', 'ferryman'], help='also time it in each round')
    ap.add_argument('--set', action='append', default=[], metavar='NAME:VARIABLE=VALUE')
    ap.add_argument('--rounds', type=int, default=12)
    ap.add_argument('--path', default='/svc-a/hello', help='/svc-a/1m: 1 MiB answers')
    ap.add_argument('--paths', type=int, default=1, help='ask for so many paths in turn')
    ap.add_argument('--upload', type=int, default=0, metavar='BYTES', help='send so many with each request')
    a = ap.parse_args()
    d = pathlib.Path(tempfile.mkdtemp(prefix='proxy-paired-'))
    procs = {}
    settings = [(name, *setting.split('=', 1)) for name, setting in (s.split(':', 1) for s in a.set)]
    try:
        mint = compare.make_pki(d)
        token = mint(cnf={'x5t#S256': thumbprint(d)}) if any('+identity' in v for v in a.versions) else mint()
        compare.write_configs(d)
        compare.sh('gcc', '-shared', '-fPIC', '-o', str(d / 'cc.so'), str(compare.HERE / 'client_cert.c'), '-ldl')
        on = lambda cpu, *cmd, **more: subprocess.Popen(['taskset', '-c', str(cpu), *cmd], stdout=subprocess.DEVNULL,
                                                        stderr=subprocess.DEVNULL, env=dict(os.environ, RUST_LOG='warn', **more))
        counts = [int(n) for n in re.findall(r'\+(\d+)', ' '.join(a.versions))]
        listen = ' '.join(f'listen {address};' for address in many(max(counts, default=0)))
        conf = d / 'up.conf'
        conf.write_text(conf.read_text().replace(f'listen 127.0.0.1:{compare.UP};', f'listen 127.0.0.1:{compare.UP}; {listen}'))
        procs[''] = on(1, 'nginx', '-g', 'daemon off;', '-c', str(d / 'up.conf'))
        time.sleep(.5)
        for i, version in enumerate(a.versions):
            name, _, rest = version.partition('=')
            checkout, _, more = rest.partition(',')
            checkout, _, preset = checkout.partition('+')
            root = pathlib.Path(checkout).resolve()
            text = (d / 'proxy.toml').read_text()
            more = more.replace('\\n', '\n')
            if preset.isdigit(): text = with_addresses(text, int(preset), more)
            else: text = text.replace('[[routes]]', more + '\n[[routes]]', 1)
            (d / f'{i}.toml').write_text(with_identity(text) if preset == 'identity' else text)
            procs[name] = on(0, str(root / 'node_modules/.bin/node'), str(root / 'dist/main.js'), '--config', str(d / f'{i}.toml'),
                             '--bind', f'127.0.0.1:{19000 + i}', '--metrics-bind', f'127.0.0.1:{19100 + i}', '--workers', '1',
                             **{variable: value for of, variable, value in settings if of == name})
        if 'haproxy' in a.beside: procs['haproxy'] = on(0, 'haproxy', '-db', '-f', str(d / 'full.cfg'))
        if 'ferryman' in a.beside:
            procs['ferryman'] = on(0, shutil.which('ferryman-edge-server'), '--config', str(d / 'proxy.toml'), '--bind',
                                   f'127.0.0.1:{compare.FERRYMAN}', '--metrics-bind', f'127.0.0.1:{compare.FERRYMAN + 1}')
        port = {name: 19000 + i for i, name in enumerate(v.partition('=')[0] for v in a.versions)}
        port |= {'haproxy': compare.FULL, 'ferryman': compare.FERRYMAN}
        body = compare.upload(d, a.upload)
        if a.upload: a.path = '/svc-a/upload'
        for name in procs:
            if name: await_listener(port[name], procs[name])
        time.sleep(1)
        env = dict(os.environ, CLIENT_CERT=str(d / 'client.crt'), CLIENT_KEY=str(d / 'client.key'), LD_PRELOAD=str(d / 'cc.so'))
        names = [name for name in procs if name]
        cost = {name: [] for name in names}

        def uris(name):
            uri = f'https://127.0.0.1:{port[name]}{a.path}'
            if a.paths == 1: return [uri]
            (d / f'paths-{name}').write_text(''.join(f'{uri}/{i:06d}?page={i}\n' for i in range(a.paths)))
            return ['-i', str(d / f'paths-{name}')]

        def requests(name):
            out = subprocess.run(['taskset', '-c', '1', 'h2load', *(['--h1'] if a.proto == 'h1' else []), '-c', a.conns, '-m', a.streams,
                                  '-n', a.requests, '-t', '1', '-H', 'authorization: Bearer ' + token, *body,
                                  *uris(name)], env=env, capture_output=True, text=True).stdout
            ok = re.search(r'codes: (\d+) 2xx', out)
            if ok is None or ok.group(1) != a.requests: raise SystemExit(f'{name}: not all were answered\n{out}')
            return int(a.requests)

        for r in range(a.rounds + 2):  # the first two warm up
            for name in names if r % 2 else reversed(names):  # whoever comes first after a pause pays for it
                before = compare.ticks(procs[name].pid)
                done = compare.handshakes(d, port[name], 1) if a.handshakes else requests(name)
                if r > 1: cost[name].append((compare.ticks(procs[name].pid) - before) / done)
        first = cost[names[0]]
        what = f'{a.proto} {a.path}, {a.conns} connections x {a.streams}{f", {a.paths} paths" if a.paths > 1 else ""}; {a.rounds} pairs of {a.requests} requests'
        if a.handshakes: what = f'new mTLS connections; {a.rounds} pairs of 1 s'
        print(f'{what}; CPU us each')
        print(f'{"":20s}{"median":>8s}{"x first":>9s}{"- first":>9s}{"RSS MiB":>9s}')
        for name in names:
            ratio = statistics.median(x / y for x, y in zip(cost[name], first))
            more = statistics.median(x - y for x, y in zip(cost[name], first))
            print(f'{name:20s}{statistics.median(cost[name]):8.1f}{ratio:9.2f}{more:9.1f}{compare.resident_mib(procs[name].pid):9.1f}')
    finally:
        for p in procs.values(): p.send_signal(signal.SIGTERM)
        for p in procs.values():
            try: p.wait(5)
            except subprocess.TimeoutExpired: p.kill()
        shutil.rmtree(d, ignore_errors=True)


def await_listener(port, proc):
    for _ in range(300):
        if proc.poll() is not None: raise SystemExit(f'port {port}: the proxy has ended')
        if socket.socket().connect_ex(('127.0.0.1', port)) == 0: return
        time.sleep(.1)
    raise SystemExit(f'port {port}: nobody listens')


if __name__ == '__main__':
    main()
