import type { ServerResponse } from 'node:http';
import type { Timers } from '../timers.ts';
import { changes, type Fragment } from './fragment.ts';
import { queryOf, type View } from './view.ts';

/** Who looks on at once; further ones are told to come back (503), and their pages ask from time to time. */
export const MAX_CLIENTS = 16;
const PERIOD_MS = 1_000;
/** Updates in a row that a reader may miss because it has not taken the last one yet. */
const MAX_MISSED = 10;

type Response = Pick<ServerResponse, 'write' | 'writableNeedDrain' | 'destroy' | 'on'>;

export interface EventParts {
	readonly timers: Timers;
	/** The page's changing part, as somebody looks at it just now. */
	readonly render: (view: View) => Fragment;
}

/**
 * Server-sent events of the status page: once a second each reader gets the elements that have changed since its last update. One
 * rendering serves all readers of the same view, and nothing is done while there is no reader.
 */
export class StatusEvents {
	readonly #parts: EventParts;
	readonly #clients = new Set<Client>();
	#stop: (() => void) | undefined;

	constructor(parts: EventParts) {
		this.#parts = parts;
	}

	get isFull(): boolean {
		return this.#clients.size >= MAX_CLIENTS;
	}

	get clients(): number {
		return this.#clients.size;
	}

	/** @param response whose head has been written. */
	add(view: View, response: Response): void {
		const client: Client = { view, key: queryOf(view), response, sent: undefined, missed: 0 };
		this.#clients.add(client);
		response.on('close', () => this.#remove(client));
		// A browser whose connection has broken asks anew after so long.
		response.write('retry: 3000\n\n');
		this.#update([client]);
		this.#stop ??= this.#parts.timers.every(PERIOD_MS, () => this.#update(this.#clients));
	}

	#remove(client: Client): void {
		this.#clients.delete(client);
		if (this.#clients.size > 0) return;
		this.#stop?.();
		this.#stop = undefined;
	}

	#update(clients: Iterable<Client>): void {
		const trees = new Map<string, Fragment>();
		// Readers of one view have nearly always got the same before.
		const updates = new Map<Fragment | undefined, Map<Fragment, string>>();
		for (const client of [...clients]) {
			if (client.response.writableNeedDrain) {
				// No update is kept for it: the next one that it gets says all that has changed meanwhile.
				if (++client.missed >= MAX_MISSED) client.response.destroy();
				continue;
			}
			const tree = trees.get(client.key) ?? this.#parts.render(client.view);
			trees.set(client.key, tree);
			const after = updates.get(client.sent) ?? new Map<Fragment, string>();
			updates.set(client.sent, after);
			const update = after.get(tree) ?? eventOf(changes(client.sent, tree));
			after.set(tree, update);
			client.response.write(update);
			client.sent = tree;
			client.missed = 0;
		}
	}
}

interface Client {
	readonly view: View;
	readonly key: string;
	readonly response: Response;
	/** What it shows. */
	sent: Fragment | undefined;
	missed: number;
}

/** JSON has no line breaks, which would end the event's data. */
function eventOf(elements: readonly string[]): string {
	return `data: ${JSON.stringify(elements)}\n\n`;
}
