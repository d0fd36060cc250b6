/**
 * Parses the URL of an issuer's keys: `https://`, or `http://` to a loopback address.
 *
 * @returns the URL, or why the text is refused. The reason never quotes the text: a password must not end up in a log.
 */
export function parseJwksUrl(text: string): URL | string {
	const url = URL.parse(text);
	if (url === null || !/^https?:\/\/[^/]/i.test(text)) {
		return 'write it in full, for example "https://issuer.example/jwks.json"';
	}
	if (url.username !== '' || url.password !== '') return 'user info is not sent to issuers; leave it out';
	if (text.includes('#')) return 'a fragment is not sent; leave it out';
	if (url.protocol === 'http:' && !isLoopback(url.hostname)) {
		return 'anyone on the network path could replace the keys and sign tokens; http:// is only for 127.0.0.1 and [::1]';
	}
	return url;
}

/** Only for addresses: a resolver decides where a name leads. */
export function isLoopback(hostname: string): boolean {
	return hostname === '[::1]' || /^127(?:\.\d+){3}$/.test(hostname);
}
