import { isToken } from '@mtls-edge-proxy/gate/gates/grammar.ts';
import { BAD_REQUEST, METHOD_NOT_IMPLEMENTED, type Rejection } from '@mtls-edge-proxy/gate/gates/rejection.ts';

/**
 * The methods that requests may have, over either protocol: those of Node's HTTP/1.1 parser, which are most of the IANA registry
 * and a few unregistered ones in use. Both protocols share the list: otherwise a client could get past a gate by its choice of
 * protocol.
 *
 * CONNECT and TRACE have refusals of their own (`upgrade.ts`).
 */
const METHODS: ReadonlySet<string> = new Set([
	// RFC 9110 section 9, RFC 5789 (PATCH), and QUERY.
	'GET',
	'HEAD',
	'POST',
	'PUT',
	'DELETE',
	'CONNECT',
	'OPTIONS',
	'TRACE',
	'PATCH',
	'QUERY',
	// WebDAV and its extensions (RFC 4918, 3253, 3744, 4791, 5323, 5842), and RFC 2068.
	'ACL',
	'BIND',
	'CHECKOUT',
	'COPY',
	'LINK',
	'LOCK',
	'MERGE',
	'MKACTIVITY',
	'MKCALENDAR',
	'MKCOL',
	'MOVE',
	'PROPFIND',
	'PROPPATCH',
	'REBIND',
	'REPORT',
	'SEARCH',
	'UNBIND',
	'UNLINK',
	'UNLOCK',
	// Not registered: UPnP, caches, Icecast.
	'M-SEARCH',
	'NOTIFY',
	'PURGE',
	'SOURCE',
	'SUBSCRIBE',
	'UNSUBSCRIBE',
]);

/**
 * RFC 9110 section 9.1: 501 for a method that is not implemented. Methods are case-sensitive: `get` is not GET. Text that is not a
 * token is not a method, and makes the message malformed.
 */
export function refuseMethod(method: string): Rejection | undefined {
	if (METHODS.has(method)) return undefined;
	return isToken(method) ? METHOD_NOT_IMPLEMENTED : BAD_METHOD;
}

const BAD_METHOD = BAD_REQUEST.because('malformed method');
