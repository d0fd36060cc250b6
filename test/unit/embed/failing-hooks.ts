/** Hooks of a program that fail, in each way in which JavaScript can. */
import { setImmediate as turn } from 'node:timers/promises';

const fault = () => new Error('from the hook');

export const FAILING: readonly (readonly [how: string, hook: () => never])[] = [
	[
		'throws',
		() => {
			throw fault();
		},
	],
	['rejects', (async () => Promise.reject(fault())) as never],
	[
		'gives a thenable that rejects twice, and throws',
		(() => ({
			// biome-ignore lint/suspicious/noThenProperty: it is what is tested
			then(_done: unknown, failed: (error: unknown) => void) {
				failed(fault());
				failed(fault());
				throw fault();
			},
		})) as never,
	],
	[
		'gives an object whose then throws',
		(() => ({
			// biome-ignore lint/suspicious/noThenProperty: it is what is tested
			get then() {
				throw fault();
			},
		})) as never,
	],
];

/** The warnings of the process while `run` runs, and a moment longer. */
export async function warningsOf(run: () => Promise<unknown>): Promise<string[]> {
	const warnings: string[] = [];
	const note = ({ message }: Error) => void warnings.push(message);
	process.on('warning', note);
	try {
		await run();
		for (let i = 0; i < 3; i++) await turn();
	} finally {
		process.off('warning', note);
	}
	return warnings;
}
