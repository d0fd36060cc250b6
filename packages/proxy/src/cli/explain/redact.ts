/** Removes tokens and credentials from texts that may be pasted into a ticket or a chat. */

const REDACTED = '[redacted]';

/** Names of header fields and of query parameters whose values are credentials, or may be. */
const SECRET_NAME =
	/auth|cookie|token|secret|passw|credential|session|signature|api[-_]?key|apikey|access[-_]?key|^(?:x-)?(?:key|sig|code|jwt|sid|pwd)$/i;
const NOT_SECRET: ReadonlySet<string> = new Set(['authority', ':authority']);
/** The beginning of a JSON object in base64url, and a second part: a JWT, whole or cut. */
const JWT = /\beyJ[\w-]+\.[\w.-]*/g;

function isSecretName(name: string): boolean {
	return SECRET_NAME.test(name) && !NOT_SECRET.has(name.toLowerCase());
}

/** Redacts values of query parameters that may be credentials. */
export function redactTarget(target: string): string {
	const query = target.search(/[?#]/);
	if (query === -1) return target.replaceAll(JWT, REDACTED);
	const shown = target
		.slice(query)
		.replaceAll(/([?&;#])([^=&;#]*)=([^&;#]*)/g, (all, lead: string, name: string) =>
			isSecretName(decoded(name)) ? `${lead}${name}=${REDACTED}` : all,
		);
	return `${target.slice(0, query)}${shown}`.replaceAll(JWT, REDACTED);
}

function decoded(name: string): string {
	try {
		return decodeURIComponent(name);
	} catch {
		return name;
	}
}

/**
 * Redacts the target and the values of credential fields in a request head. The scheme of `Authorization` stays.
 *
 * @param lines of HTTP/1.1, or fields of HTTP/2.
 */
export function redactHead(lines: readonly string[]): string[] {
	return lines.map((line, i) => {
		if (line.startsWith(PATH)) return PATH + redactTarget(line.slice(PATH.length));
		if (i > 0 || line.startsWith(':')) return redactLine(line);
		const [method = '', target = '', version = ''] = line.split(' ');
		return `${method} ${redactTarget(target)} ${version}`;
	});
}

const PATH = ':path: ';

function redactLine(line: string): string {
	const colon = line.indexOf(': ');
	const name = line.slice(0, Math.max(colon, 0));
	if (!isSecretName(name)) return line.replaceAll(JWT, REDACTED);
	const [scheme] = name.toLowerCase() === 'authorization' ? (/^Bearer /i.exec(line.slice(colon + 2)) ?? ['']) : [''];
	return `${name}: ${scheme}${REDACTED}`;
}

/** @param secrets given by the user, such as the token. */
export function redactText(text: string, secrets: readonly string[]): string {
	let shown = text;
	for (const secret of secrets) if (secret.length >= MIN_SECRET) shown = shown.replaceAll(secret, REDACTED);
	return shown.replaceAll(JWT, REDACTED);
}

/** Shorter secrets occur in ordinary words. */
const MIN_SECRET = 6;
