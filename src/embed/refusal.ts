import { RATE_LIMITED, type Rejection, TOKEN_INVALID, TOKEN_MISSING } from '../gates/rejection.ts';

/** The answer to a request that the gate does not let through, ready to send (specification 4.4). */
export interface Refusal {
	/** Stable; for logs and metrics. Callers are not told a missing token from an invalid one. */
	readonly code: 'token-missing' | 'token-invalid' | 'rate-limited';
	readonly status: 401 | 429;
	/** All of the answer's own headers, lower case, `content-type` and `content-length` among them. */
	readonly headers: Readonly<Record<string, string>>;
	/** ASCII. */
	readonly body: string;
}

type RefusalVerdict = { readonly ok: false; readonly refusal: Refusal };

const VERDICTS = new Map<string, RefusalVerdict>(
	[TOKEN_MISSING, TOKEN_INVALID, RATE_LIMITED].map((rejection) => [rejection.code, verdictOn(rejection)]),
);

/**
 * @param rejection one of the three that the gate can give.
 *
 * @internal
 */
export function refused(rejection: Rejection): RefusalVerdict {
	return VERDICTS.get(rejection.code)!;
}

function verdictOn({ code, status, body, headers }: Rejection): RefusalVerdict {
	const all: Record<string, string> = {
		'content-type': 'text/plain; charset=utf-8',
		'content-length': String(Buffer.byteLength(body)),
	};
	for (let i = 0; i < headers.length; i += 2) all[headers[i]!] = headers[i + 1]!;
	const refusal = Object.freeze({ code, status, headers: Object.freeze(all), body }) as Refusal;
	return Object.freeze({ ok: false, refusal });
}
