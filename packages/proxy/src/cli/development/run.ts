import { realpathSync } from 'node:fs';
import { delimiter, join, resolve } from 'node:path';
import { loadConfig } from '../../config/load.ts';
import { type Context, PROGRAMS } from '../command.ts';
import { createClient } from './client.ts';
import { developmentFiles, readDevelopmentFile } from './folder.ts';
import { type InitOptions, initialise } from './init.ts';
import { makeToken, partiesOf } from './token.ts';

/** `proxy init`, `proxy pki client` and `proxy token`: their output. The work is done in the other files of this folder. */

type Output = Pick<Context, 'print' | 'stderr'>;

export async function runInit(
	options: InitOptions,
	{ print, env, mainPath }: Pick<Context, 'print' | 'env' | 'mainPath'>,
): Promise<number> {
	const { all, next } = await initialise(options, Date.now());
	const proxy = spelling(mainPath, env);
	const enter =
		resolve(options.dir) === process.cwd() ? '' : `cd ${quoteForShell(options.dir.replace(/^-/, './-'))}\n  `;
	print(`Created, for development and not for production:
${all.map((path) => `  ${path}\n`).join('')}
Next, with a service at ${options.upstream} (the route's upstream in config.toml) that answers GET /health with a 2xx (health_path):

  ${enter}${proxy} check
  ${proxy}
  curl --cacert ${next.ca} --cert ${next.cert} --key ${next.key} -H "authorization: Bearer $(${proxy} token --sub acme)" https://localhost:8443/

The proxy runs until Ctrl-C: enter the last command in another terminal, in the same folder.
`);
	return 0;
}

export async function runPkiClient(
	{ name, sans, dir }: { readonly name: string; readonly sans: readonly string[]; readonly dir: string },
	{ print }: Pick<Output, 'print'>,
): Promise<number> {
	const { cert, key } = await createClient(dir, name, sans, Date.now());
	print(`Created, for development and not for production:\n  ${cert}\n  ${key}\n`);
	return 0;
}

/** The options of `proxy token`. */
interface TokenValues {
	readonly sub: string;
	readonly claims: readonly (readonly [name: string, value: unknown])[];
	readonly ttlSeconds: number;
	readonly cert: string | undefined;
	readonly config: string;
	readonly dir: string;
}

export async function runToken(
	{ sub, claims, ttlSeconds, cert, config, dir }: TokenValues,
	{ print, stderr }: Output,
): Promise<number> {
	const key = readDevelopmentFile(developmentFiles(dir).issuer.key, 'the key that signs tokens');
	const certificate =
		cert === undefined
			? undefined
			: readDevelopmentFile(cert, 'the client certificate', 'name another one with --cert');
	const own = Object.fromEntries(claims);
	const parties = partiesOf(await loadConfig(config), own.iss);
	print(`${makeToken({ sub, claims: own, ttlSeconds, certificate }, parties, key, Math.floor(Date.now() / 1000))}\n`);
	// To standard error, for people: standard output has only the token.
	stderr.write('proxy: a token for development: anyone with dev/issuer.key can sign one\n');
	return 0;
}

/** The words that call this command again: its name if PATH finds it, otherwise its file. */
function spelling(mainPath: string, env: Context['env']): string {
	// npm puts its own folders into PATH for what it runs; the user's shell does not know them.
	const folders = env.npm_command === undefined ? (env.PATH ?? '').split(delimiter) : [];
	const found = PROGRAMS.find((program) => folders.some((dir) => isMain(join(dir, program), mainPath)));
	return found ?? `node ${quoteForShell(mainPath)}`;
}

function isMain(path: string, mainPath: string): boolean {
	try {
		return realpathSync(path) === realpathSync(mainPath);
	} catch {
		return false;
	}
}

function quoteForShell(text: string): string {
	return /^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", `'\\''`)}'`;
}
