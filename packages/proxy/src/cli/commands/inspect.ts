import { isIP } from 'node:net';
import { quote } from '../../config/wording.ts';
import { defineCommand, Malformed } from '../command.ts';
import { parseFileName } from '../options.ts';
import { addressConflicts, RUN_OPTIONS, RUN_SWITCHES } from '../run-options.ts';
import { METRICS_OPTION, timeoutOption } from './control.ts';

export const check = defineCommand({
	name: 'check',
	group: 'Inspect',
	about: 'check the configuration and its files, without starting the proxy',
	details: [
		'Takes the options of proxy run, so you can put check before the same options. Reads the configuration and the files it names, and reports all errors and warnings that a start would report, each with its line.',
	],
	example: 'proxy check --config /etc/proxy/config.toml',
	options: RUN_OPTIONS,
	switches: { ...RUN_SWITCHES, json: { flag: 'json', about: 'print one JSON object: ok, errors, warnings' } },
	exitCodes: { 0: 'no errors', 1: 'errors found' },
	conflicts: addressConflicts,
	run: async (values, context) => (await import('../check.ts')).runCheck(values, context),
});

export const explain = defineCommand({
	name: 'explain',
	group: 'Inspect',
	about: 'show, gate by gate, whether a request would pass, and why',
	details: [
		'Checks the described request against the configuration and its files, without a running proxy. After a refusal it continues with the later gates, so that you can fix everything at once. If the request passes, it prints the head that the upstream gets, without secrets.',
		'It cannot know how much of a limit is left: only the running proxy does. For an issuer with jwks_url or discovery, it fetches the keys once. docs/how-to/explain.md has an example and the members of --json.',
	],
	example: 'proxy explain --path /api/items --token-file token.jwt --client-cert client.crt',
	options: {
		config: RUN_OPTIONS.config,
		method: {
			flag: 'method',
			placeholder: 'METHOD',
			fallback: 'GET',
			about: 'method of the request',
			parse: parseNotEmpty,
		},
		path: {
			flag: 'path',
			placeholder: 'PATH',
			about: 'path of the request, with its query, encoded as the client sends it',
			parse: parseNotEmpty,
		},
		url: { flag: 'url', placeholder: 'URL', about: 'instead of --path: https://host/path', parse: parseUrl },
		// Repeatable, so that several can be refused without printing one.
		token: {
			flag: 'token',
			placeholder: 'TOKEN',
			repeatable: true,
			about: 'sent as Authorization: Bearer TOKEN; other users of the machine can see it',
			parse: parseNotEmpty,
		},
		tokenFile: {
			flag: 'token-file',
			placeholder: 'FILE',
			about: 'the same from a file; /dev/stdin for standard input',
			candidates: 'file',
			parse: parseFileName,
		},
		clientCert: {
			flag: 'client-cert',
			placeholder: 'FILE',
			about: "the client's certificate, PEM, followed by the intermediates that it sends; needs no key",
			candidates: 'file',
			parse: parseFileName,
		},
		headers: {
			flag: 'header',
			placeholder: "'NAME: VALUE'",
			repeatable: true,
			about: 'a header line',
			parse: parseNotEmpty,
		},
		bodyBytes: {
			flag: 'body-bytes',
			placeholder: 'N',
			about: 'length of the body; 0 for none',
			parse: parseBytes,
		},
		metrics: {
			flag: 'metrics',
			placeholder: 'HOST:PORT',
			about: 'metrics listener of a running proxy; adds the state of the breaker and the health of the upstream',
			parse: METRICS_OPTION.parse,
		},
		peer: { flag: 'peer', placeholder: 'IP', about: "the client's address, for x-forwarded-for", parse: parsePeer },
	},
	switches: {
		http2: { flag: 'http2', about: 'treat it as an HTTP/2 request' },
		offline: { flag: 'offline', about: 'fetch no keys' },
		json: { flag: 'json', about: 'print one JSON object' },
	},
	exitCodes: {
		0: 'the request passes',
		1: 'the request is refused, or the result is unknown',
		3: 'the configuration has errors',
	},
	conflicts: ({ path, url, token, tokenFile }) => [
		...(path === undefined && url === undefined ? ['--path: is missing; write for example --path /api/items'] : []),
		...(path !== undefined && url !== undefined ? ['--url: has the path, too; leave out one of the two'] : []),
		...(token.length > 1 ? ['--token: is given twice; give it once, and more of them by --header'] : []),
		...(token.length > 0 && tokenFile !== undefined
			? ['--token-file: conflicts with --token; leave out one of the two']
			: []),
	],
	run: async ({ token: [token], ...asked }, { print, stdout, stderr }) => {
		const { runExplain } = await import('../explain/run.ts');
		return runExplain(
			{ ...asked, token },
			{
				print,
				complain: (text) => stderr.write(`${text.replaceAll(/^/gm, 'proxy: ')}\n`),
				color: stdout.isTTY === true && stdout.hasColors(),
			},
		);
	},
});

export const healthcheck = defineCommand({
	name: 'healthcheck',
	group: 'Inspect',
	about: 'ask a running proxy whether it is ready',
	details: [
		'Requests /readyz on the metrics listener, or /livez with --live. It replaces curl in container health checks.',
	],
	example: 'proxy healthcheck --metrics 127.0.0.1:9090',
	options: { metrics: METRICS_OPTION, timeoutMs: timeoutOption('2s', 'time limit for the whole response') },
	switches: { live: { flag: 'live', about: 'check only whether it responds' } },
	exitCodes: { 0: 'ready; with --live: alive', 1: 'it is not, and one line says why' },
	run: async (values, context) => (await import('../running/healthcheck.ts')).healthcheck(values, context),
});

function parseNotEmpty(text: string): string {
	if (text === '') throw new Malformed('must not be empty');
	return text;
}

function parseUrl(text: string): string {
	if (/^https:\/\/[^/?#@\s]+/i.test(text)) return text;
	throw new Malformed('must be https://host/path, without user info');
}

function parseBytes(text: string): number {
	const bytes = /^\d{1,15}$/.test(text) ? Number(text) : Number.NaN;
	if (!Number.isNaN(bytes)) return bytes;
	throw new Malformed(`must be a whole number of bytes (got ${quote(text)})`);
}

function parsePeer(text: string): string {
	if (isIP(text) !== 0) return text;
	throw new Malformed(`must be an IP address (got ${quote(text)}), for example 192.0.2.7`);
}
