import { BAD_REQUEST, BODY_ERROR, HEADERS_TOO_LARGE, type Rejection } from './rejection.ts';

/** What llhttp's codes mean, in words. The texts that it gives along with them may quote the client. */
const WORDS: Readonly<Record<string, string>> = {
	HPE_INVALID_METHOD: 'unknown method',
	HPE_INVALID_URL: 'malformed target',
	HPE_INVALID_CONSTANT: 'malformed request line',
	HPE_INVALID_VERSION: 'malformed HTTP version',
	HPE_INVALID_HEADER_TOKEN: 'malformed header field',
	HPE_UNEXPECTED_SPACE: 'blank in a header field name',
	HPE_INVALID_CONTENT_LENGTH: 'malformed content-length',
	HPE_UNEXPECTED_CONTENT_LENGTH: 'content-length that contradicts another',
	HPE_INVALID_TRANSFER_ENCODING: 'malformed transfer-encoding',
	HPE_INVALID_CHUNK_SIZE: 'malformed chunk size',
	HPE_CHUNK_EXTENSIONS_OVERFLOW: 'chunk extensions too long',
	HPE_CR_EXPECTED: 'line without CR',
	HPE_LF_EXPECTED: 'CR without LF',
	HPE_STRICT: 'CR without LF',
	HPE_INVALID_EOF_STATE: 'ends inside a message',
	HPE_CLOSED_CONNECTION: 'bytes after the last request',
	HPE_PAUSED_H2_UPGRADE: 'HTTP/2 preface without ALPN',
};

/** The refusal of a head that llhttp cannot read, by the parser's code. */
export function headRefusal(code: string): Rejection {
	return code === 'HPE_HEADER_OVERFLOW' ? HEADERS_TOO_LARGE : BAD_REQUEST.because(wordsFor(code));
}

/** The refusal of a body that llhttp cannot read. */
export function bodyRefusal(code: string): Rejection {
	return BODY_ERROR.because(wordsFor(code));
}

function wordsFor(code: string): string {
	return WORDS[code] ?? `not HTTP/1.1 (${code})`;
}
