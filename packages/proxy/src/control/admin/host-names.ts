import { isIP } from 'node:net';

/**
 * Whether a `Host` may ask the metrics listener, which has no password. A foreign page in the browser of somebody inside must not read
 * it: by DNS rebinding such a page gives its own name our address, and then has the same origin. A name that no one outside can own
 * cannot be rebound. Other names have to be configured (`[status] hosts`).
 *
 * @param host the field as it was sent; `undefined`: no browser asks.
 * @param allowed names in lower case, without a port.
 */
export function mayAsk(host: string | undefined, allowed: ReadonlySet<string>): boolean {
	if (host === undefined) return true;
	const name = nameOf(host);
	if (name === undefined) return false;
	// A name of one label is of no public domain, and the others end in one that is reserved (RFC 6761, RFC 6762, RFC 8375, and
	// `.internal` by ICANN) or is a cluster's own.
	return isIP(name) !== 0 || !name.includes('.') || PRIVATE_ENDS.some((end) => name.endsWith(end)) || allowed.has(name);
}

const PRIVATE_ENDS = ['.localhost', '.local', '.internal', '.home.arpa', '.test', '.svc'];

/** Without port, brackets and the final dot. */
function nameOf(host: string): string | undefined {
	const [, bracketed, name] = /^(?:\[([\da-f:.]+)\]|([\w.-]+))(?::\d{1,5})?$/i.exec(host) ?? [];
	return (bracketed ?? name)?.toLowerCase().replace(/\.$/, '');
}
