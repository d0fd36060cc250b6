import { suggest } from '@mtls-edge-proxy/gate/words/suggest.ts';
import type { Command, Environment } from './command.ts';

/** A variable that seems meant for the proxy, and the remedy. */
interface UnknownVariable {
	readonly name: string;
	readonly message: string;
}

/**
 * Finds `PROXY_*` variables that no command reads: a mistyped one would have no effect and no message. Ignores their
 * values.
 */
export function unknownVariables(env: Environment, commands: readonly Command[]): UnknownVariable[] {
	const known = variablesOf(commands);
	return Object.keys(env)
		.filter((name) => name.startsWith('PROXY_') && !known.includes(name) && !OF_A_SERVICE.test(name))
		.sort()
		.map((name) => {
			const meant = suggest(name, known);
			const remedy = meant === undefined ? `there are ${known.join(', ')}` : `did you mean ${meant}?`;
			return { name, message: `is not a variable of the proxy; ${remedy}` };
		});
}

function variablesOf(commands: readonly Command[]): string[] {
	const names = commands.flatMap(({ options }) => Object.values(options).map(({ env }) => env));
	return [...new Set(names)].filter((name) => name !== undefined).filter((name) => name.startsWith('PROXY_'));
}

/** Kubernetes sets these in every pod next to a Service called `proxy` or `proxy-…`. */
const OF_A_SERVICE =
	/^PROXY_(?:\w+_)?(?:SERVICE_(?:HOST|PORT(?:_\w+)?)|PORT(?:_\d+_(?:TCP|UDP|SCTP)(?:_(?:PROTO|PORT|ADDR))?)?)$/;
