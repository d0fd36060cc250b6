"""grpcio as a client and as a server. What both do and print is said in peers.ts."""
import collections, json, os, queue, random, sys, threading, time
from concurrent import futures
from urllib.parse import urlsplit

import grpc

ECHO_INITIAL = 'x-grpc-test-echo-initial'
ECHO_TRAILING = 'x-grpc-test-echo-trailing-bin'
REQUEST_SIZES = [27_182, 8, 1_828, 45_904]
RESPONSE_SIZES = [31_415, 9, 2_653, 58_979]
LARGE = 314_159
PINGS = 300
CONNECTIONS = 10
AT_ONCE = 32
SLEEP_SECS = 1
POLL_SECS = 0.02
OPTIONS = [('grpc.max_receive_message_length', -1), ('grpc.enable_retries', 0), ('grpc.enable_http_proxy', 0)]
CODES = {code.value[0]: code for code in grpc.StatusCode}


def read(variable):
    with open(os.environ[variable], 'rb') as file:
        return file.read()


def say(**what):
    print(json.dumps(what), flush=True)


class Service(grpc.GenericRpcHandler):
    """The test service under any name, and health."""

    def __init__(self):
        self.asleep = collections.Counter()
        self.changing = threading.Lock()
        self.handlers = {
            'UnaryCall': grpc.unary_unary_rpc_method_handler(self.unary),
            'StreamingInputCall': grpc.stream_unary_rpc_method_handler(self.streaming_input),
            'StreamingOutputCall': grpc.unary_stream_rpc_method_handler(self.streaming_output),
            'FullDuplexCall': grpc.stream_stream_rpc_method_handler(self.full_duplex),
            'Sleep': grpc.unary_unary_rpc_method_handler(self.sleep),
            'Asleep': grpc.unary_unary_rpc_method_handler(lambda key, _: b'%d' % self.asleep[key]),
            # { status: SERVING }
            'Check': grpc.unary_unary_rpc_method_handler(lambda _request, _: b'\x08\x01'),
        }

    def service(self, details):
        return self.handlers.get(details.method.rpartition('/')[2])

    def begin(self, context):
        """Sends metadata back, or ends the call as its metadata says."""
        sent = dict(context.invocation_metadata())
        if 'x-fails-bin' in sent:
            code, message = sent['x-fails-bin'].decode().split(' ', 1)
            context.abort(CODES[int(code)], message)
        if 'x-compress' in sent:
            context.set_compression(grpc.Compression.Gzip)
        initial = [(name, sent[name]) for name in [ECHO_INITIAL] if name in sent]
        context.send_initial_metadata([*initial, ('x-connection', context.peer())])
        context.set_trailing_metadata([(name, sent[name]) for name in [ECHO_TRAILING] if name in sent])

    def unary(self, request, context):
        self.begin(context)
        return request

    def streaming_input(self, requests, context):
        self.begin(context)
        return b'%d' % sum(len(request) for request in requests)

    def streaming_output(self, request, context):
        self.begin(context)
        for size in request.split(b','):
            yield bytes(int(size))

    def full_duplex(self, requests, context):
        self.begin(context)
        yield from requests

    def sleep(self, key, context):
        ended = threading.Event()
        if not context.add_callback(ended.set):
            return b''
        self.count(key, 1)
        ended.wait()
        self.count(key, -1)
        return b''

    def count(self, key, change):
        with self.changing:
            self.asleep[key] += change


def serve(*_services):
    pool = futures.ThreadPoolExecutor(4 * AT_ONCE)
    service = Service()
    aging = [('grpc.max_connection_age_ms', 100), ('grpc.max_connection_age_grace_ms', 600_000)]
    secure = grpc.ssl_server_credentials([(read('GRPC_KEY'), read('GRPC_CERT'))])
    ports, servers = {}, []
    for name, options in [('clear', []), ('tls', []), ('aging', aging)]:
        server = grpc.server(pool, [service], options=OPTIONS + options)
        address = '127.0.0.1:0'
        ports[name] = server.add_secure_port(address, secure) if name == 'tls' else server.add_insecure_port(address)
        server.start()
        servers.append(server)
    say(**ports)
    servers[0].wait_for_termination()


class Client:
    def __init__(self, channel, service):
        self.metadata = [('authorization', 'Bearer ' + os.environ['EDGE_TOKEN'])]
        method = lambda kind, name: getattr(channel, kind)(f'/{service}/{name}')
        self.unary = method('unary_unary', 'UnaryCall')
        self.input = method('stream_unary', 'StreamingInputCall')
        self.output = method('unary_stream', 'StreamingOutputCall')
        self.duplex = method('stream_stream', 'FullDuplexCall')
        self.sleep = method('unary_unary', 'Sleep')
        self.asleep = method('unary_unary', 'Asleep')
        self.nothing = method('unary_unary', 'Nothing')

    def ask(self, method, request, metadata=(), **options):
        """Returns the response, `None` where there is none, and the call."""
        try:
            return method.with_call(request, metadata=[*self.metadata, *metadata], **options)
        except grpc.RpcError as error:
            return None, error

    def until_asleep(self, key, wanted):
        while self.ask(self.asleep, key)[0] != b'%d' % wanted:
            time.sleep(POLL_SECS)

    def empty_unary(self):
        response, call = self.ask(self.unary, b'')
        return {'code': number(call), 'same': response == b''}

    def large_unary(self):
        request = os.urandom(LARGE)
        response, call = self.ask(self.unary, request)
        return {'code': number(call), 'same': response == request}

    def compressed_unary(self):
        request = b'compress ' * LARGE
        response, call = self.ask(self.unary, request, [('x-compress', '1')], compression=grpc.Compression.Gzip)
        return {'code': number(call), 'same': response == request}

    def client_streaming(self):
        response, call = self.ask(self.input, (bytes(size) for size in REQUEST_SIZES))
        return {'code': number(call), 'total': response and int(response)}

    def server_streaming(self):
        call = self.output(','.join(map(str, RESPONSE_SIZES)).encode(), metadata=self.metadata)
        sizes = [len(response) for response in call]
        return {'code': number(call), 'sizes': sizes}

    def ping_pong(self):
        pings = queue.SimpleQueue()
        call = self.duplex(iter(pings.get, None), metadata=self.metadata)
        answered = 0
        for i in range(PINGS):
            ping = os.urandom(REQUEST_SIZES[i % len(REQUEST_SIZES)])
            pings.put(ping)
            answered += next(call) == ping
        pings.put(None)
        rest = len(list(call))
        return {'code': number(call), 'answered': answered, 'rest': rest}

    def empty_stream(self):
        call = self.duplex(iter([]), metadata=self.metadata)
        return {'answered': len(list(call)), 'code': number(call)}

    def timeout_on_sleeping_server(self):
        key = b'timeout'
        _, call = self.ask(self.sleep, key, timeout=SLEEP_SECS)
        self.until_asleep(key, 0)
        return {'code': number(call)}

    def cancel_after_begin(self):
        key = b'cancel'
        call = self.sleep.future(key, metadata=self.metadata)
        self.until_asleep(key, 1)
        call.cancel()
        self.until_asleep(key, 0)
        return {'code': number(call)}

    def cancel_after_first_response(self):
        pings = queue.SimpleQueue()
        call = self.duplex(iter(pings.get, None), metadata=self.metadata)
        pings.put(b'ping')
        same = next(call) == b'ping'
        call.cancel()
        pings.put(None)
        return {'same': same, 'code': number(call)}

    def fails(self, status):
        _, call = self.ask(self.unary, b'', [('x-fails-bin', status.encode())])
        return {'code': number(call), 'details': call.details()}

    def status_code_and_message(self):
        return self.fails('2 test status message')

    def special_status_message(self):
        return self.fails('2 \t\ntest with whitespace\r\nand Unicode BMP ☺ and non-BMP \U0001f608\t\n')

    def custom_metadata(self):
        sent = [(ECHO_INITIAL, 'test_initial_metadata_value'), (ECHO_TRAILING, b'\xab\xab\xab')]
        _, call = self.ask(self.unary, b'', sent)
        initial, trailing = dict(call.initial_metadata()), dict(call.trailing_metadata())
        return {'code': number(call), 'initial': initial.get(ECHO_INITIAL), 'trailing': trailing[ECHO_TRAILING].hex()}

    def unimplemented_method(self):
        return {'code': number(self.ask(self.nothing, b'')[1])}

    def many_connections(self):
        connections, failed = set(), []

        def loop(number):
            while len(connections) < CONNECTIONS and not failed:
                request = b'%d ' % number * random.randrange(1_000)
                response, call = self.ask(self.unary, request)
                if response == request:
                    connections.add(dict(call.initial_metadata())['x-connection'])
                else:
                    failed.append(f'{call.code()} {call.details()}')

        with futures.ThreadPoolExecutor(AT_ONCE) as pool:
            list(pool.map(loop, range(AT_ONCE)))
        return {'failed': failed}


def number(call):
    return call.code().value[0]


def call(base, service, cases):
    url = urlsplit(base)
    if url.scheme == 'https':
        credentials = grpc.ssl_channel_credentials(read('EDGE_CA'), read('EDGE_KEY'), read('EDGE_CERT'))
        channel = grpc.secure_channel(url.netloc, credentials, OPTIONS)
    else:
        channel = grpc.insecure_channel(url.netloc, OPTIONS)
    with channel:
        client = Client(channel, service)
        for case in cases.split(','):
            say(case=case, **getattr(client, case)())


{'serve': serve, 'call': call}[sys.argv[1]](*sys.argv[2:])
