import type { IncomingMessage, ServerResponse } from 'node:http';

export interface PageResponse {
	readonly status: number;
	readonly body: string | Buffer;
	/** Default: plain text. */
	readonly type?: string;
	readonly headers?: Readonly<Record<string, string>>;
}

export type Page = (request: IncomingMessage) => PageResponse | Promise<PageResponse>;

/** By path. */
export type Pages = ReadonlyMap<string, Page>;

export function end(
	response: ServerResponse,
	{ status, body, type = 'text/plain; charset=utf-8', headers }: PageResponse,
): void {
	response.writeHead(status, {
		...headers,
		'content-type': type,
		'content-length': Buffer.byteLength(body),
		// An old response must not decide where connections go.
		'cache-control': 'no-store',
		vary: 'accept',
	});
	// Node omits the body of a response to HEAD.
	response.end(body);
}
