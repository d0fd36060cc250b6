import { quote } from './wording.ts';

/**
 * Where an issuer's keys may be fetched from: `https://`, and `http://` where nothing leaves the machine.
 *
 * @returns the address, or in words what is wrong with the text and what to write.
 */
export function parseJwksUrl(text: string): URL | string {
	// A password must not end up in a log.
	const shown = quote(text.replace(/\/\/.*@/s, '//***@'));
	const refusal = (reason: string) => `must be an https:// address (got ${shown}): ${reason}`;
	const url = URL.parse(text);
	if (url === null || !/^https?:\/\/[^/]/i.test(text)) {
		return refusal('write it in full, for example "https://issuer.example/jwks.json"');
	}
	if (url.username !== '' || url.password !== '') return refusal('user info is not sent to issuers; leave it out');
	if (text.includes('#')) return refusal('a fragment is not sent; leave it out');
	if (url.protocol === 'http:' && !isLoopback(url.hostname)) {
		return refusal('who can change what is on the way could sign tokens; http:// is for 127.0.0.1 and [::1] alone');
	}
	return url;
}

/** An address, not a name: what a name stands for is for others to say. */
function isLoopback(hostname: string): boolean {
	return hostname === '[::1]' || /^127(?:\.\d+){3}$/.test(hostname);
}
