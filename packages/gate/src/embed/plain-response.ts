import type { ServerResponse } from 'node:http';
import { constants, type ServerHttp2Stream } from 'node:http2';

export interface PlainResponse {
	readonly status: number;
	readonly headers: Readonly<Record<string, string>>;
	readonly body: string;
}

/** A plain-text response, with the headers of its body only. */
export function textResponse({ status, body }: Pick<PlainResponse, 'status' | 'body'>): PlainResponse {
	const length = String(Buffer.byteLength(body));
	return { status, headers: { 'content-type': 'text/plain; charset=utf-8', 'content-length': length }, body };
}

/**
 * Ends a response that a handler failed to finish. If it has begun, the stream or connection is reset, so that the client cannot
 * take it for complete.
 *
 * @param isLeftOver whether a header (lower case) belongs to the failed response and is dropped.
 * @param stream the HTTP/2 stream, if there is one.
 */
export function endWith(
	res: ServerResponse,
	{ status, headers, body }: PlainResponse,
	isLeftOver: (name: string) => boolean,
	stream = (res as { readonly stream?: ServerHttp2Stream }).stream,
): void {
	const breakOff = () => (stream ? stream.close(constants.NGHTTP2_INTERNAL_ERROR) : res.destroy());
	try {
		if (res.writableEnded) return;
		if (res.headersSent) {
			breakOff();
			return;
		}
		for (const name of res.getHeaderNames()) if (isLeftOver(name)) res.removeHeader(name);
		res.writeHead(status, headers);
		res.end(body);
	} catch {
		breakOff();
	}
}
