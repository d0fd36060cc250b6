/**
 * Where an issuer's keys may be fetched from: `https://`, and `http://` where nothing leaves the machine.
 *
 * @returns the address, or in words why the text is none. They quote nothing of it: a password must not end up in a log.
 */
export function parseJwksUrl(text: string): URL | string {
	const url = URL.parse(text);
	if (url === null || !/^https?:\/\/[^/]/i.test(text)) {
		return 'write it in full, for example "https://issuer.example/jwks.json"';
	}
	if (url.username !== '' || url.password !== '') return 'user info is not sent to issuers; leave it out';
	if (text.includes('#')) return 'a fragment is not sent; leave it out';
	if (url.protocol === 'http:' && !isLoopback(url.hostname)) {
		return 'who can change what is on the way could sign tokens; http:// is for 127.0.0.1 and [::1] alone';
	}
	return url;
}

/** An address, not a name: a resolver decides the address of a name. */
export function isLoopback(hostname: string): boolean {
	return hostname === '[::1]' || /^127(?:\.\d+){3}$/.test(hostname);
}
