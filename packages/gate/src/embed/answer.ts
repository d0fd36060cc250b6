import type { ServerResponse } from 'node:http';
import { constants, type ServerHttp2Stream } from 'node:http2';

export interface Answer {
	readonly status: number;
	readonly headers: Readonly<Record<string, string>>;
	readonly body: string;
}

/** One of the proxy's own answers that have no headers beside those of the body. */
export function textAnswer({ status, body }: Pick<Answer, 'status' | 'body'>): Answer {
	const length = String(Buffer.byteLength(body));
	return { status, headers: { 'content-type': 'text/plain; charset=utf-8', 'content-length': length }, body };
}

/**
 * Ends a response that somebody else has failed to make. One that has begun is broken off, so that nobody takes it for a whole one.
 *
 * @param isLeftOver whether a header, in lower case, belongs to the answer that failed, and is dropped.
 * @param stream of HTTP/2.
 */
export function endWith(
	res: ServerResponse,
	{ status, headers, body }: Answer,
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
