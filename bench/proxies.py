"""Certificates, tokens and configurations of all proxies that the benchmarks load, and of the upstream behind them. Each proxy does the same
job: client certificate, token, rate by tenant, route. `write_configs` writes those with an HTTP/1.1 upstream, `write_for` those with another one.
"""
import base64, json, os, pathlib, subprocess, sys, time

HERE = pathlib.Path(__file__).resolve().parent
SINK, UP, FULL, RAW, NGX, OURS, METRICS, ENVOY, FERRYMAN = 18000, 18001, 18443, 18444, 18445, 18446, 18447, 18448, 18450
# The same upstream over TLS, over HTTP/2 in clear text, and as an echo for WebSocket messages.
UP_TLS, UP_H2, UP_WS = 18002, 18003, 18004
# Second instances of this project and of HAProxy, for comparisons with themselves.
FULL_2, OURS_2, METRICS_2 = 18453, 18456, 18457

# A gRPC message of 100 bytes on the wire, with its five-byte prefix. No proxy parses it, so nginx sends letters.
UNARY_BYTES = 105


def sh(*cmd, **kw):
    return subprocess.run(cmd, check=True, capture_output=True, text=True, **kw).stdout


def make_pki(d):
    def openssl(*a): sh('openssl', *a, cwd=d)
    openssl('req', '-x509', '-newkey', 'rsa:2048', '-nodes', '-keyout', 'ca.key', '-out', 'ca.crt', '-days', '2',
            '-subj', '/CN=bench CA', '-addext', 'keyUsage=critical,keyCertSign,cRLSign')
    for name, ext in (('server', 'subjectAltName=DNS:localhost,IP:127.0.0.1\nextendedKeyUsage=serverAuth\n'),
                      ('client', 'extendedKeyUsage=clientAuth\n')):
        openssl('req', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-nodes', '-keyout', f'{name}.key',
                '-out', f'{name}.csr', '-subj', f'/CN={name}')
        (d / f'{name}.ext').write_text(ext)
        openssl('x509', '-req', '-in', f'{name}.csr', '-CA', 'ca.crt', '-CAkey', 'ca.key', '-CAcreateserial', '-out',
                f'{name}.crt', '-days', '2', '-extfile', f'{name}.ext')
    (d / 'server.pem').write_text((d / 'server.crt').read_text() + (d / 'server.key').read_text())
    openssl('genrsa', '-out', 'jwt.key', '2048')
    openssl('rsa', '-in', 'jwt.key', '-pubout', '-out', 'jwt.pub')
    b64 = lambda b: base64.urlsafe_b64encode(b).rstrip(b'=')
    now = int(time.time())

    def mint(**claims):
        signing = b64(b'{"alg":"RS256","typ":"JWT"}') + b'.' + b64(json.dumps(
            {'sub': 'tenant-a', 'iss': 'https://issuer.example', 'aud': 'proxy', 'scope': 'read',
             'nbf': now - 10, 'exp': now + 86400, **claims}).encode())
        sig = subprocess.run(['openssl', 'dgst', '-sha256', '-sign', d / 'jwt.key'], input=signing, check=True,
                             capture_output=True).stdout
        return (signing + b'.' + b64(sig)).decode()

    modulus = sh('openssl', 'rsa', '-pubin', '-in', str(d / 'jwt.pub'), '-noout', '-modulus').strip().split('=')[1]
    (d / 'jwks.json').write_text(json.dumps({'keys': [{'kty': 'RSA', 'alg': 'RS256', 'use': 'sig', 'e': 'AQAB',
                                                       'n': b64(bytes.fromhex(modulus)).decode()}]}))
    return mint


def write_configs(d):
    tmp = f'client_body_temp_path {d}/t; proxy_temp_path {d}/t; fastcgi_temp_path {d}/t; uwsgi_temp_path {d}/t; scgi_temp_path {d}/t;'
    (d / 'www').mkdir()
    (d / 'www' / '1m').write_bytes(os.urandom(1 << 20))
    d.chmod(0o755)
    (d / 'up.conf').write_text(f'''worker_processes 1; pid {d}/up.pid; error_log {d}/up.err; user root;
events {{ worker_connections 8192; }}
http {{ access_log off; keepalive_requests 1000000000; keepalive_timeout 600; {tmp}
 # Heads with a client's certificate exceed 1 KiB, which nginx would read in two steps.
 client_header_buffer_size 8k;
 client_max_body_size 0; client_body_buffer_size 4m;
 upstream sink {{ server 127.0.0.1:{SINK}; keepalive 64; keepalive_requests 1000000000; }}
 server {{ listen 127.0.0.1:{SINK}; location / {{ default_type application/json; return 200 '{{"length":$http_x_length}}'; }} }}
 server {{ listen 127.0.0.1:{UP}; listen 127.0.0.1:{UP_H2} http2; listen 127.0.0.1:{UP_TLS} ssl; ssl_certificate {d}/server.crt; ssl_certificate_key {d}/server.key;
 location = /health {{ return 200 "ok"; }}
 location = /svc-a/unary {{ default_type application/grpc; add_trailer grpc-status 0; return 200 "{"m" * UNARY_BYTES}"; }}
 location = /svc-a/1m {{ alias {d}/www/1m; }}
 location = /svc-a/upload {{  # reads the body to its end before it answers, as services do
  proxy_http_version 1.1; proxy_set_header Connection ""; proxy_set_header x-length $content_length;
  proxy_pass_request_body off; proxy_set_header Content-Length ""; proxy_pass http://sink; }}
 location / {{ default_type application/json; return 200 '{{"hello":"world","tenant":"$http_x_proxy_tenant$http_x_ferryman_tenant"}}'; }} }} }}''')
    (d / 'ngx.conf').write_text(f'''worker_processes 1; pid {d}/ngx.pid; error_log {d}/ngx.err; user root;
events {{ worker_connections 8192; }}
http {{ access_log off; keepalive_requests 1000000000; keepalive_timeout 600; {tmp} client_max_body_size 0; proxy_request_buffering off;
 upstream u {{ server 127.0.0.1:{UP}; keepalive 256; keepalive_requests 1000000000; }}
 server {{ listen 127.0.0.1:{NGX} ssl http2; ssl_certificate {d}/server.crt; ssl_certificate_key {d}/server.key;
  ssl_client_certificate {d}/ca.crt; ssl_verify_client on; ssl_session_cache off; ssl_session_tickets off;
  location / {{ proxy_http_version 1.1; proxy_set_header Connection ""; proxy_set_header X-Forwarded-For $remote_addr;
  proxy_set_header x-proxy-tenant t; proxy_pass http://u; }} }} }}''')
    head = f'''global
  nbthread 1
  maxconn 4000
defaults
  mode http
  timeout client 60s
  timeout server 30s
  timeout connect 5s
  timeout http-request 10s
  timeout http-keep-alive 60s
'''
    bind = f'ssl crt {d}/server.pem ca-file {d}/ca.crt verify required no-tls-tickets alpn h2,http/1.1'
    forward = f'''  http-request deny deny_status 400 if {{ path_sub /../ }}
  http-request del-header x-proxy-tenant
  http-request set-header x-proxy-tenant %[var(txn.sub)]
  http-request set-header x-forwarded-for %[src]
  http-request set-header x-forwarded-proto https
  use_backend b1 if {{ path_beg /svc-a }}
  default_backend none
backend none
  http-request return status 404
backend b1
  option httpchk
  http-check send meth GET uri /health ver HTTP/1.1 hdr host up
  http-reuse always
  server s1 127.0.0.1:{UP} check inter 5s
'''
    whole_job = f'''frontend fe
  bind 127.0.0.1:{FULL} {bind}
  stick-table type string len 64 size 100k expire 10s store http_req_rate(1s)
  http-request set-var(txn.bearer) http_auth_bearer
  http-request set-var(txn.alg) var(txn.bearer),jwt_header_query('$.alg')
  http-request deny deny_status 401 unless {{ var(txn.alg) -m str RS256 }}
  http-request set-var(txn.iss) var(txn.bearer),jwt_payload_query('$.iss')
  http-request set-var(txn.aud) var(txn.bearer),jwt_payload_query('$.aud')
  http-request set-var(txn.sub) var(txn.bearer),jwt_payload_query('$.sub')
  http-request set-var(txn.exp) var(txn.bearer),jwt_payload_query('$.exp','int')
  http-request set-var(txn.now) date()
  http-request deny deny_status 401 unless {{ var(txn.iss) -m str https://issuer.example }}
  http-request deny deny_status 401 unless {{ var(txn.aud) -m str proxy }}
  http-request deny deny_status 401 if {{ var(txn.exp),sub(txn.now) -m int lt 0 }}
  http-request deny deny_status 401 unless {{ var(txn.bearer),jwt_verify(txn.alg,"{d}/jwt.pub") 1 }}
  http-request track-sc0 var(txn.sub)
  http-request deny deny_status 429 if {{ sc_http_req_rate(0) gt 1000000 }}
''' + forward
    (d / 'full.cfg').write_text(head + whole_job)
    (d / 'full-tls.cfg').write_text(head + whole_job.replace(f':{FULL} ', f':{FULL_2} ').replace(
        f':{UP} check', f':{UP_TLS} ssl verify required ca-file {d}/ca.crt check'))
    (d / 'raw.cfg').write_text(head + f'''frontend fe
  bind 127.0.0.1:{RAW} {bind}
  http-request set-var(txn.sub) str(t)
''' + forward)
    (d / 'proxy.toml').write_text(f'''tenant_rps = 1000000
[tls]
cert_path = "{d}/server.crt"
key_path = "{d}/server.key"
client_ca_path = "{d}/ca.crt"
[jwt]
jwks_path = "{d}/jwt.pub"
issuer = "https://issuer.example"
audience = "proxy"
[[routes]]
prefix = "/svc-a"
upstream = "http://127.0.0.1:{UP}"
''')  # ferryman-edge reads this very file: its keys have the same names
    (d / 'proxy-tls.toml').write_text((d / 'proxy.toml').read_text().replace(f'"http://127.0.0.1:{UP}"', '"up"') + f'''
[[upstreams]]
name = "up"
addresses = ["127.0.0.1:{UP_TLS}"]
[upstreams.tls]
ca_path = "{d}/ca.crt"
''')
    (d / 'envoy.yaml').write_text(json.dumps(envoy_config(d)))  # JSON is YAML


def lead_to(d, protocol):
    """Points the configurations to another upstream; `proxy-h1.toml` keeps this project's old one. @param protocol `h2` or `websocket`."""
    (d / 'proxy-h1.toml').write_text((d / 'proxy.toml').read_text())
    up = UP_H2 if protocol == 'h2' else UP_WS
    edit(d / 'ngx.conf', f'server 127.0.0.1:{UP};', f'server 127.0.0.1:{up};')
    if protocol == 'h2':
        edit(d / 'full.cfg', f':{UP} check', f':{up} proto h2 check')
        edit(d / 'proxy.toml', f'http://127.0.0.1:{UP}', f'h2c://127.0.0.1:{up}')
        edit(d / 'ngx.conf', 'proxy_http_version 1.1; proxy_set_header Connection "";', '', 'proxy_set_header', 'grpc_set_header', 'proxy_pass http', 'grpc_pass grpc')
    else:
        edit(d / 'full.cfg', f':{UP} check', f':{up} check')
        edit(d / 'proxy.toml', f':{UP}"\n', f':{up}"\nwebsocket = true\n')
        edit(d / 'ngx.conf', 'Connection "";', 'Upgrade $http_upgrade; proxy_set_header Connection upgrade;')
    (d / 'envoy.yaml').write_text(json.dumps(envoy_config(d, up)))


def edit(file, *replacements):
    text = file.read_text()
    for old, new in zip(replacements[::2], replacements[1::2]):
        if old not in text: raise SystemExit(f'{file.name}: there is no {old}')
        text = text.replace(old, new)
    file.write_text(text)


def envoy_config(d, up=UP):
    """The same job in Envoy's terms, without features that the others lack (request ids, Envoy headers)."""
    t = lambda name, **kw: {'@type': 'type.googleapis.com/envoy.' + name, **kw}
    full = {'default_value': {'numerator': 100, 'denominator': 'HUNDRED'}}
    bucket = {'max_tokens': 1000000, 'tokens_per_fill': 1000000, 'fill_interval': '1s'}
    overwrite = lambda k, v: {'header': {'key': k, 'value': v}, 'append_action': 'OVERWRITE_IF_EXISTS_OR_ADD'}
    hcm = t('extensions.filters.network.http_connection_manager.v3.HttpConnectionManager', stat_prefix='edge',
            codec_type='AUTO', use_remote_address=True, normalize_path=True, generate_request_id=False,
            server_header_transformation='PASS_THROUGH', request_timeout='30s',
            http2_protocol_options={'max_concurrent_streams': 64},
            **({'upgrade_configs': [{'upgrade_type': 'websocket'}]} if up == UP_WS else {}),
            route_config={'virtual_hosts': [{
                'name': 'v', 'domains': ['*'],
                'routes': [{'match': {'path_separated_prefix': '/svc-a'},
                            'route': {'cluster': 'up', 'timeout': '30s',
                                      'host_rewrite_literal': f'127.0.0.1:{up}'}}],
                'request_headers_to_add': [overwrite('x-forwarded-for', '%DOWNSTREAM_REMOTE_ADDRESS_WITHOUT_PORT%')],
            }]},
            http_filters=[
                {'name': 'envoy.filters.http.jwt_authn', 'typed_config': t(
                    'extensions.filters.http.jwt_authn.v3.JwtAuthentication',
                    providers={'p': {'issuer': 'https://issuer.example', 'audiences': ['proxy'], 'forward': True,
                                     'local_jwks': {'inline_string': (d / 'jwks.json').read_text()},
                                     'clock_skew_seconds': 60, 'jwt_cache_config': {'jwt_cache_size': 10000},
                                     'claim_to_headers': [{'header_name': 'x-proxy-tenant', 'claim_name': 'sub'}]}},
                    rules=[{'match': {'prefix': '/'}, 'requires': {'provider_name': 'p'}}])},
                {'name': 'envoy.filters.http.local_ratelimit', 'typed_config': t(
                    'extensions.filters.http.local_ratelimit.v3.LocalRateLimit', stat_prefix='rl',
                    token_bucket={'max_tokens': 100000000, 'tokens_per_fill': 100000000, 'fill_interval': '1s'},
                    filter_enabled=full, filter_enforced=full, max_dynamic_descriptors=10000,
                    rate_limits=[{'actions': [{'request_headers': {'header_name': 'x-proxy-tenant',
                                                                   'descriptor_key': 'tenant'}}]}],
                    # An entry without a value: a bucket for each tenant.
                    descriptors=[{'entries': [{'key': 'tenant'}], 'token_bucket': bucket}])},
                {'name': 'envoy.filters.http.router', 'typed_config': t(
                    'extensions.filters.http.router.v3.Router', suppress_envoy_headers=True)},
            ])
    tls = t('extensions.transport_sockets.tls.v3.DownstreamTlsContext', require_client_certificate=True,
            disable_stateless_session_resumption=True, disable_stateful_session_resumption=True,
            common_tls_context={
                'alpn_protocols': ['h2', 'http/1.1'],
                'tls_certificates': [{'certificate_chain': {'filename': f'{d}/server.crt'},
                                      'private_key': {'filename': f'{d}/server.key'}}],
                'validation_context': {'trusted_ca': {'filename': f'{d}/ca.crt'}}})
    address = lambda port: {'socket_address': {'address': '127.0.0.1', 'port_value': port}}
    many = {k: 65536 for k in ('max_connections', 'max_pending_requests', 'max_requests')}
    return {'static_resources': {
        'listeners': [{'name': 'edge', 'address': address(ENVOY), 'filter_chains': [{
            'transport_socket': {'name': 'tls', 'typed_config': tls},
            'filters': [{'name': 'envoy.filters.network.http_connection_manager', 'typed_config': hcm}]}]}],
        'clusters': [{
            **({'typed_extension_protocol_options': {'envoy.extensions.upstreams.http.v3.HttpProtocolOptions': t(
                'extensions.upstreams.http.v3.HttpProtocolOptions', explicit_http_config={'http2_protocol_options': {}})}} if up == UP_H2 else {}),
            'name': 'up', 'type': 'STATIC', 'connect_timeout': '5s', 'circuit_breakers': {'thresholds': [many]},
            'common_lb_config': {'healthy_panic_threshold': {'value': 0}},
            'outlier_detection': {'consecutive_gateway_failure': 1, 'enforcing_consecutive_gateway_failure': 100,
                                  'base_ejection_time': '30s', 'max_ejection_percent': 100},
            'health_checks': [{'timeout': '2s', 'interval': '5s', 'unhealthy_threshold': 1, 'healthy_threshold': 1,
                               'http_health_check': {'path': '/health', **({'codec_client_type': 'HTTP2'} if up == UP_H2 else {})}}],
            'load_assignment': {'cluster_name': 'up', 'endpoints': [{'lb_endpoints': [
                {'endpoint': {'address': address(up)}}]}]}}]}}


def command_of(root):
    """Path of the built command below `root`: of the package itself, or of one of its workspaces."""
    for manifest in [root / 'package.json', *sorted(root.glob('packages/*/package.json'))]:
        path = (json.loads(manifest.read_text()).get('bin') or {}).get('proxy') if manifest.exists() else None
        if path: return str((manifest.parent / path).relative_to(root))
    sys.exit(f'{root}: no package.json names the command proxy')
