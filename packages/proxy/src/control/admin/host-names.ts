import { isIP } from 'node:net';

/**
 * Whether the metrics listener, which has no password, answers requests with this `Host`. A foreign page in an insider's browser
 * must not read it: with DNS rebinding, such a page points its own name to our address, and then has the same origin. A name that
 * nobody outside can own cannot be rebound. Other names must be configured (`[status] hosts`).
 *
 * @param host the field as sent; `undefined`: the client is not a browser.
 * @param allowed names in lower case, without a port.
 */
export function mayAsk(host: string | undefined, allowed: ReadonlySet<string>): boolean {
	if (host === undefined) return true;
	const name = nameOf(host);
	if (name === undefined) return false;
	// A name of one label is in no public domain, and the others end in a reserved one (RFC 6761, RFC 6762, RFC 8375, and
	// `.internal` by ICANN) or is a cluster's own.
	return isIP(name) !== 0 || !name.includes('.') || PRIVATE_ENDS.some((end) => name.endsWith(end)) || allowed.has(name);
}

const PRIVATE_ENDS = ['.localhost', '.local', '.internal', '.home.arpa', '.test', '.svc'];

/** The name without port, brackets and final dot. */
function nameOf(host: string): string | undefined {
	const [, bracketed, name] = /^(?:\[([\da-f:.]+)\]|([\w.-]+))(?::\d{1,5})?$/i.exec(host) ?? [];
	return (bracketed ?? name)?.toLowerCase().replace(/\.$/, '');
}
