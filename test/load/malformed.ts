/** Bytes that are not an HTTP/1.1 response, or have two readings. Text is latin1. */

const HEADS: Readonly<Record<string, string>> = {
	'no status line': 'hello, I am not HTTP\r\n\r\n',
	'HTTP/0.9': '<html>just a body</html>',
	'HTTP/2.0': 'HTTP/2.0 200 OK\r\nContent-Length: 2\r\n\r\nok',
	'HTTP/1.2': 'HTTP/1.2 200 OK\r\nContent-Length: 2\r\n\r\nok',
	'status 099': 'HTTP/1.1 099 Low\r\nContent-Length: 2\r\n\r\nok',
	'status 600': 'HTTP/1.1 600 High\r\nContent-Length: 2\r\n\r\nok',
	'status of two digits': 'HTTP/1.1 20 Short\r\nContent-Length: 2\r\n\r\nok',
	'status of four digits': 'HTTP/1.1 2000 Long\r\nContent-Length: 2\r\n\r\nok',
	'a blank before the version': ' HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok',
	'a line break first': '\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok',
	'length and chunks': 'HTTP/1.1 200 OK\r\nContent-Length: 7\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n',
	'chunks and length': 'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Length: 7\r\n\r\n2\r\nok\r\n0\r\n\r\n',
	'two lengths': 'HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\nok!',
	'the same length twice': 'HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 2\r\n\r\nok',
	'a list of lengths': 'HTTP/1.1 200 OK\r\nContent-Length: 2, 2\r\n\r\nok',
	'a signed length': 'HTTP/1.1 200 OK\r\nContent-Length: +2\r\n\r\nok',
	'a negative length': 'HTTP/1.1 200 OK\r\nContent-Length: -2\r\n\r\nok',
	'a hexadecimal length': 'HTTP/1.1 200 OK\r\nContent-Length: 0x2\r\n\r\nok',
	'an empty length': 'HTTP/1.1 200 OK\r\nContent-Length:\r\n\r\nok',
	'a length beyond all numbers': `HTTP/1.1 200 OK\r\nContent-Length: ${'9'.repeat(30)}\r\n\r\nok`,
	'gzip, chunked': 'HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n',
	'chunked twice':
		'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n',
	xchunked: 'HTTP/1.1 200 OK\r\nTransfer-Encoding: xchunked\r\n\r\n2\r\nok\r\n0\r\n\r\n',
	'chunked in HTTP/1.0': 'HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n',
	'a folded line': 'HTTP/1.1 200 OK\r\nX-Fold: one\r\n two\r\nContent-Length: 2\r\n\r\nok',
	'a blank before the colon': 'HTTP/1.1 200 OK\r\nContent-Length : 2\r\n\r\nok',
	'an empty name': 'HTTP/1.1 200 OK\r\n: value\r\nContent-Length: 2\r\n\r\nok',
	'a line without a colon': 'HTTP/1.1 200 OK\r\nContent-Length 2\r\n\r\nok',
	'a bare LF in the head': 'HTTP/1.1 200 OK\r\nX-One: 1\nContent-Length: 2\r\n\r\nok',
	'a bare CR in a value': 'HTTP/1.1 200 OK\r\nX-One: 1\rContent-Length: 9\r\nContent-Length: 2\r\n\r\nok',
	'NUL in a value': 'HTTP/1.1 200 OK\r\nX-One: a\0b\r\nContent-Length: 2\r\n\r\nok',
	'NUL in a name': 'HTTP/1.1 200 OK\r\nX-O\0ne: 1\r\nContent-Length: 2\r\n\r\nok',
	'a control character in the reason': 'HTTP/1.1 200 O\x01K\r\nContent-Length: 2\r\n\r\nok',
	'lower-case http': 'http/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok',
};

const CHUNKS: Readonly<Record<string, string>> = {
	'no number': 'chunk\r\nok\r\n0\r\n\r\n',
	'an empty size': '\r\nok\r\n0\r\n\r\n',
	'a signed size': '+2\r\nok\r\n0\r\n\r\n',
	'a negative size': '-2\r\nok\r\n0\r\n\r\n',
	'a size with 0x': '0x2\r\nok\r\n0\r\n\r\n',
	'a size beyond all numbers': 'ffffffffffffffffff\r\nok\r\n0\r\n\r\n',
	'a blank before the size': ' 2\r\nok\r\n0\r\n\r\n',
	'a bare LF after the size': '2\nok\r\n0\r\n\r\n',
	'a bare CR after the size': '2\rok\r\n0\r\n\r\n',
	'a NUL in an extension': '2;a=\0\r\nok\r\n0\r\n\r\n',
	'an extension of 20 kB': `2;a=${'x'.repeat(20_000)}\r\nok\r\n0\r\n\r\n`,
	'a chunk longer than its size': '2\r\nokay\r\n0\r\n\r\n',
	'a chunk shorter than its size': '4\r\nok\r\n0\r\n\r\n',
	'a chunk without its line break': '2\r\nok0\r\n\r\n',
	'a malformed trailer': '0\r\nno colon here\r\n\r\n',
	'a length in a trailer': '0\r\nContent-Length: 3\r\n\r\n',
	'chunks in a trailer': '0\r\nTransfer-Encoding: chunked\r\n\r\n',
	'a folded trailer': '0\r\nX-One: 1\r\n two\r\n\r\n',
};

export const MALFORMED_HEADS: readonly string[] = Object.values(HEADS);
export const MALFORMED_CHUNKS: readonly string[] = Object.values(CHUNKS);

/** Sent on a connection without a request. */
export const POISONS: readonly string[] = [
	// Many servers send this before they close an idle connection.
	'HTTP/1.1 408 Request Timeout\r\nConnection: close\r\nContent-Length: 0\r\n\r\n',
	'HTTP/1.1 100 Continue\r\n\r\n',
	'HTTP/1.1 200 OK\r\n',
	'\r\n',
	'\0',
];
