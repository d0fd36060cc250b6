"""A gRPC client that knows no service: POST /upload as a unary call. What it prints is said in clients.ts."""
import json, os, sys
from urllib.parse import urlsplit

import grpc

DEADLINE_SECS = 30


def read(variable):
    with open(os.environ[variable], 'rb') as file:
        return file.read()


url = urlsplit(sys.argv[1])
credentials = grpc.ssl_channel_credentials(read('EDGE_CA'), read('EDGE_KEY'), read('EDGE_CERT'))
with grpc.secure_channel(url.netloc, credentials, [('grpc.enable_http_proxy', 0)]) as channel:
    path = f'{url.path}/upload'
    call = channel.unary_unary(path)
    metadata = [('authorization', 'Bearer ' + os.environ['EDGE_TOKEN'])]
    report = {'request': f'POST {path}'}
    try:
        call(bytes(int(os.environ['EDGE_UPLOAD'])), timeout=DEADLINE_SECS, metadata=metadata)
        report |= {'code': 'OK', 'details': ''}
    except grpc.RpcError as error:
        report |= {'code': error.code().name, 'details': error.details()}
    print(json.dumps(report))
