#!/usr/bin/env python3
"""The extra cost of a group of N addresses over one address, for this proxy and for HAProxy: CPU microseconds per request.

One process has all routes. One h2load per route is stopped and continued, so that the routes take turns of 0.2 s: two processes of one
version differ by more than the cost in question, and so does one process from second to second on a shared machine. "+/-" is the
standard error over all rounds of turns. Health probes run all the time and cost all routes the same: --idle measures them.

  addresses.py [--count 50] [--secs 10] [--processes 4] [--project CHECKOUT]
  addresses.py --cold 100 # and a third route: one address with this many connections, used at random instead of the last one first
  addresses.py --h2-upstream --proto h2   # upstreams and clients that speak HTTP/2
  addresses.py --idle     # CPU milliseconds per second without requests: one address, N addresses, N without probes

Needs compare.py next to it, and what that needs. Loopback only; the proxies run on CPU 0, load and upstreams on CPU 1.
"""
import argparse, os, pathlib, re, shutil, signal, statistics, subprocess, tempfile, time, urllib.request

import proxies
from paired import await_listener, cpu_us, haproxy_with_addresses, listen, many, with_addresses

TURN = .2
PORT = 19000
STATUS = 18009  # nginx counts for both proxies in the same way


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument('--count', type=int, default=50, help='addresses, 127.0.1.1 and on, all of the same server')
    ap.add_argument('--secs', type=int, default=10, help='with each process')
    ap.add_argument('--processes', type=int, default=4, help='how often each proxy is started')
    ap.add_argument('--project', type=pathlib.Path, default=proxies.HERE.parent)
    ap.add_argument('--cold', type=int, metavar='CONNECTIONS')
    ap.add_argument('--h2-upstream', action='store_true', help='addresses that speak HTTP/2')
    ap.add_argument('--proto', choices=['h1', 'h2'], default='h1', help='of the clients: 64 connections, or 16 with 16 streams each')
    ap.add_argument('--idle', action='store_true')
    ap.add_argument('--only', choices=['proxy', 'haproxy'])
    a = ap.parse_args()
    d = pathlib.Path(tempfile.mkdtemp(prefix='proxy-addresses-'))
    running = []

    def on(cpu, *cmd, **more):
        running.append(subprocess.Popen(['taskset', '-c', str(cpu), *cmd], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, **more))
        return running[-1]

    def stop(*procs):
        for p in procs:
            p.send_signal(signal.SIGCONT)
            p.terminate()
            p.wait()
            running.remove(p)

    def proxy(config, port=PORT):
        preload = ['--import', (proxies.HERE / 'any-connection.mjs').as_uri()] if a.cold else []
        p = on(0, str(a.project / 'node_modules/.bin/node'), *preload, str(a.project / proxies.command_of(a.project)), '--config', str(config), '--bind', f'127.0.0.1:{port}',
               '--metrics-bind', f'127.0.0.1:{port + 100}', '--workers', '1', env=dict(os.environ, BENCH_CONNECTIONS=str(a.cold)))
        await_listener(port, p)
        return p

    try:
        token = proxies.make_pki(d)()
        proxies.write_configs(d)
        proxies.sh('gcc', '-shared', '-fPIC', '-o', str(d / 'cc.so'), str(proxies.HERE / 'client_cert.c'), '-ldl')
        listen(d, a.count)
        if a.h2_upstream: proxies.lead_to(d, 'h2')
        up = (d / 'up.conf').read_text()
        up = up.replace('upstream sink', f'server {{ listen 127.0.0.1:{STATUS}; location / {{ stub_status; }} }} upstream sink')
        (d / 'up.conf').write_text(up)
        on(1, 'nginx', '-g', 'daemon off;', '-c', str(d / 'up.conf'))
        one = (d / 'proxy.toml').read_text()
        if a.idle: return idle(a, d, proxy, stop, one)

        group = lambda name, prefix, count: another(name, prefix, count, a.h2_upstream)
        (d / 'both.toml').write_text('\n'.join([one, group('many', '/svc-b', a.count), *([group('cold', '/svc-c', 1)] if a.cold else [])]))
        # HAProxy's second back end, under the second prefix.
        full = (d / 'full.cfg').read_text()
        others = haproxy_with_addresses(full, a.count, proxies.FULL).partition('\nbackend b1')[2]
        full = full.replace('use_backend b1', 'use_backend b2 if { path_beg /svc-b }\n  use_backend b1', 1)
        (d / 'both.cfg').write_text(f'{full}\nbackend b2{others}')

        def haproxy():
            p = on(0, 'haproxy', '-db', '-f', str(d / 'both.cfg'))
            await_listener(proxies.FULL, p)
            return p

        env = dict(os.environ, CLIENT_CERT=str(d / 'client.crt'), CLIENT_KEY=str(d / 'client.key'), LD_PRELOAD=str(d / 'cc.so'))

        def client(uri):
            """Starts a generator, and stops it once its first requests have arrived."""
            shape = ['--h1', '-c', '64', '-m', '1'] if a.proto == 'h1' else ['-c', '16', '-m', '16']
            p = on(1, 'h2load', *shape, '-D', '3600', '-t', '1', '-H', 'authorization: Bearer ' + token, uri, env=env)
            asked = requests()
            while requests() < asked + 20000: time.sleep(.1)
            p.send_signal(signal.SIGSTOP)
            return p

        def turn(p, load):
            """@returns CPU us per request."""
            cpu, asked = cpu_us(p.pid), requests()
            load.send_signal(signal.SIGCONT)
            time.sleep(TURN)
            load.send_signal(signal.SIGSTOP)
            time.sleep(.01)
            return (cpu_us(p.pid) - cpu) / (requests() - asked)

        columns = ['one', 'many', *(['cold'] if a.cold else [])]
        what = f', and one whose {a.cold} connections are used in any order,' if a.cold else ''
        clients = 'h1, 64 connections' if a.proto == 'h1' else 'h2, 16 connections x 16'
        print(f'{clients}, {a.count} addresses{" over HTTP/2" if a.h2_upstream else ""}{what} beside one in the same process; CPU us a request, medians of {a.processes} processes x {a.secs} s in turns of {TURN} s')
        print(f'{"":16s}{"median":>8s}{"- one":>8s}{"+/-":>7s}{"x one":>8s}  - one by process')
        for name, begin, port in [('proxy', lambda: proxy(d / 'both.toml'), PORT), ('haproxy', haproxy, proxies.FULL)]:
            if name != (a.only or ('proxy' if a.cold else name)): continue
            rounds = []
            for n in range(a.processes):
                p = begin()
                time.sleep(1)
                loads = [client(f'https://127.0.0.1:{port}/svc-{c}/hello') for c in 'abc'[:len(columns)]]
                until = time.monotonic() + a.secs
                rounds.append([])
                while time.monotonic() < until:
                    first = len(rounds[-1]) % len(loads)
                    costs = {which: turn(p, loads[which]) for which in [*range(first, len(loads)), *range(first)]}
                    rounds[-1].append([costs[which] for which in range(len(loads))])
                stop(*loads, p)
            each = [costs for process in rounds for costs in process]
            for which, column in enumerate(columns):
                more = [costs[which] - costs[0] for costs in each]
                error = statistics.stdev(more) / len(more) ** .5
                by_process = [statistics.median(costs[which] - costs[0] for costs in process) for process in rounds]
                print(f'{name:9s}{column:7s}{statistics.median(costs[which] for costs in each):8.1f}{statistics.median(more):8.1f}{error:7.1f}'
                      f'{statistics.median(costs[which] / costs[0] for costs in each):8.3f}  {" ".join(f"{x:.1f}" for x in by_process)}', flush=True)
    finally:
        for p in running: p.send_signal(signal.SIGCONT); p.terminate()
        for p in running: p.wait()
        shutil.rmtree(d, ignore_errors=True)


def another(name, prefix, count, is_h2):
    """A route to an [[upstreams]] with this many addresses."""
    addresses = ', '.join(f'"{address}"' for address in many(count, proxies.UP_H2 if is_h2 else proxies.UP))
    protocol = 'protocol = "h2"\n' if is_h2 else ''
    return f'[[upstreams]]\nname = "{name}"\naddresses = [{addresses}]\n{protocol}[[routes]]\nprefix = "{prefix}"\nupstream = "{name}"\n'


def idle(a, d, proxy, stop, one):
    texts = {'one': one, 'many': with_addresses(one, a.count, ''), 'not probed': with_addresses(one, a.count, 'health = false')}
    procs = {}
    for i, (name, text) in enumerate(texts.items()):
        (d / f'{i}.toml').write_text(text)
        procs[name] = proxy(d / f'{i}.toml', PORT + i)
    time.sleep(3)
    before = {name: cpu_us(p.pid) for name, p in procs.items()}
    time.sleep(a.secs * 2)
    print(f'{a.count} addresses, nothing to do; CPU ms a second')
    for name, p in procs.items(): print(f'{name:12s}{(cpu_us(p.pid) - before[name]) / 2000 / a.secs:8.1f}')
    stop(*procs.values())


def requests():
    """Number of requests that nginx has answered, without those of this function."""
    requests.own += 1
    text = urllib.request.urlopen(f'http://127.0.0.1:{STATUS}/').read().decode()
    return int(re.search(r'\n \d+ \d+ (\d+)', text).group(1)) - requests.own


requests.own = 0

if __name__ == '__main__':
    main()
