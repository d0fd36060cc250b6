/**
 * Why the store of the shared limits failed. The log, metrics and the status page describe a failure only in these words: never in what
 * a server has written, which may be anything, and never with credentials.
 */

export const STORE_FAILURES = [
	'unreachable',
	'tls',
	'timeout',
	'credentials',
	'permission',
	'read_only',
	'full',
	'loading',
	'failing_over',
	'busy',
	'unsupported',
	'malformed',
	'refused',
] as const;

export type StoreFailureReason = (typeof STORE_FAILURES)[number];

/** What an operator can do about it. */
const REMEDIES: Readonly<Record<StoreFailureReason, string>> = {
	unreachable: 'nothing answers at that address; check that the store runs, and limiter.store',
	tls: 'the TLS handshake failed; see limiter.ca_path, limiter.cert_path and limiter.server_name',
	timeout: 'no answer in time; check what delays the store, or raise limiter.timeout_secs',
	credentials: 'the store refuses the credentials; see limiter.username and limiter.password_path, and restart',
	permission: 'the ACL user lacks permissions; see docs/explanation/shared-rate-limits.md for the rules that it needs',
	read_only: 'it is a replica, or cannot write to its disk; name the primary, or use Sentinels',
	full: 'it has reached maxmemory; see docs/explanation/shared-rate-limits.md for what is needed',
	loading: 'it is reading its data; wait',
	failing_over: 'there is no primary at the moment; wait for the failover',
	busy: 'another command blocks it, or its answers take too long',
	unsupported: 'it lacks a required command; use Redis 6.2 or later, or Valkey',
	malformed: 'its answer is malformed; check that it is a Redis or Valkey, and that nothing else writes to the keys',
	refused: 'it refused the call',
};

const NO_TLS = 'it does not speak TLS on that port; write redis:// in limiter.store, or the port on which it does';

/** For codes that say more than their reason. */
const BY_CODE: Readonly<Record<string, string>> = {
	// See `tellPlain`.
	PLAIN_TEXT: NO_TLS,
	ERR_SSL_WRONG_VERSION_NUMBER: NO_TLS,
	ERR_SSL_PACKET_LENGTH_TOO_LONG: NO_TLS,
};

export class StoreFailure extends Error {
	readonly reason: StoreFailureReason;
	/** The code of the error, such as `ECONNREFUSED` or `NOPERM`. */
	readonly code: string | undefined;

	constructor(reason: StoreFailureReason, code?: string | undefined) {
		const words = BY_CODE[code ?? ''] ?? REMEDIES[reason];
		super(code === undefined ? words : `${words} (${code})`);
		this.reason = reason;
		this.code = code;
	}
}

/** By the first word of an error that the store has answered. */
const REPLIES: Readonly<Record<string, StoreFailureReason>> = {
	NOAUTH: 'credentials',
	WRONGPASS: 'credentials',
	NOPERM: 'permission',
	READONLY: 'read_only',
	MISCONF: 'read_only',
	OOM: 'full',
	LOADING: 'loading',
	MASTERDOWN: 'failing_over',
	CLUSTERDOWN: 'failing_over',
	TRYAGAIN: 'failing_over',
	MOVED: 'failing_over',
	ASK: 'failing_over',
	NOREPLICAS: 'failing_over',
	UNBLOCKED: 'failing_over',
	BUSY: 'busy',
	NOPROTO: 'unsupported',
	CROSSSLOT: 'unsupported',
};

/** Errors of the library, by class name. */
const LIBRARY: Readonly<Record<string, StoreFailureReason>> = {
	TimeoutError: 'timeout',
	ConnectionTimeoutError: 'timeout',
	SocketTimeoutError: 'timeout',
	MaxCommandRedirectionsError: 'failing_over',
	RootNodesUnavailableError: 'unreachable',
};

/** The failure for any error of the client library, a socket, TLS or the store. */
export function failureOf(error: unknown): StoreFailure {
	if (error instanceof StoreFailure) return error;
	if (!(error instanceof Error)) return new StoreFailure('refused');
	// The library wraps the last of several attempts.
	if (error instanceof AggregateError && error.errors.length > 0) return failureOf(error.errors[0]);
	const { name } = error.constructor;
	const inner = (error as { socketError?: unknown }).socketError ?? error.cause;
	if (name !== 'Error' && LIBRARY[name] === undefined && inner instanceof Error) return failureOf(inner);
	const { code } = error as NodeJS.ErrnoException;
	if (typeof code === 'string' && /^[A-Z][A-Z0-9_]{1,63}$/.test(code)) return new StoreFailure(byCode(code), code);
	if (LIBRARY[name] !== undefined) return new StoreFailure(LIBRARY[name]);
	if (/^(?:ErrorReply|SimpleError|BlobError)$/.test(name)) return replyFailure(error.message);
	// The library has no class for this.
	if (error.message.startsWith('Unknown RESP type')) return new StoreFailure('malformed');
	return new StoreFailure('unreachable');
}

/** OpenSSL's verdicts on certificates are codes without a prefix of their own. */
function byCode(code: string): StoreFailureReason {
	if (/^ERR_(?:TLS|SSL|OSSL)|CERT|SIGNATURE|ISSUER|^DEPTH_ZERO|^EPROTO$/.test(code)) return 'tls';
	return code === 'ETIMEDOUT' ? 'timeout' : 'unreachable';
}

/** @param message as the store wrote it. */
function replyFailure(message: string): StoreFailure {
	// A refusal inside a script reads "… script: <sha>, on @user_script:1." after the same first word, or after "ERR".
	const word = /^-?([A-Z]{2,20})\b/.exec(message)?.[1];
	if (word !== undefined && Object.hasOwn(REPLIES, word)) return new StoreFailure(REPLIES[word]!, word);
	const inner = Object.keys(REPLIES).find((known) => message.includes(`-${known} `));
	if (inner !== undefined) return new StoreFailure(REPLIES[inner]!, inner);
	if (/unknown command/i.test(message)) return new StoreFailure('unsupported', word);
	// ACLs allow a script as a whole, and its commands one by one.
	if (/user executing the script can't|ACL failure in script/.test(message))
		return new StoreFailure('permission', word);
	if (/invalid password|AUTH/i.test(message)) return new StoreFailure('credentials', word);
	return new StoreFailure('refused', word);
}
