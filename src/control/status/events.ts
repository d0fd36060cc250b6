import type { ServerResponse } from 'node:http';
import type { Timers } from '../timers.ts';
import { changes, type Fragment } from './fragment.ts';
import type { View } from './view.ts';

/** Who looks on at once; further ones are told to come back (503), and their pages ask from time to time. */
export const MAX_CLIENTS = 16;
const PERIOD_MS = 1_000;
/** Updates in a row that a reader may miss because it has not taken the last one yet. */
const MAX_MISSED = 10;

type Response = Pick<ServerResponse, 'write' | 'writableNeedDrain' | 'destroy' | 'on'>;

export interface EventParts {
	readonly timers: Timers;
	/** The page's changing part as it is just now; the same one for all that ask at the same moment. */
	readonly render: (view: View) => Promise<Fragment>;
	/** Told of a rendering that fails. */
	readonly onFault: (error: unknown) => void;
}

/**
 * Server-sent events of the status page: once a second each reader gets the elements that have changed since its last update. One
 * rendering serves all readers of the same view, and nothing is done while there is no reader.
 */
export class StatusEvents {
	readonly #parts: EventParts;
	readonly #clients = new Set<Client>();
	/** By both trees: readers of one view have nearly always got the same before. */
	readonly #updates = new WeakMap<Fragment, WeakMap<Fragment, string>>();
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
		const client: Client = { view, response, sent: NOTHING, missed: 0, isWaiting: false };
		this.#clients.add(client);
		response.on('close', () => this.#remove(client));
		// A browser whose connection has broken asks anew after so long.
		response.write('retry: 3000\n\n');
		this.#update(client);
		this.#stop ??= this.#parts.timers.every(PERIOD_MS, () => {
			for (const one of [...this.#clients]) this.#update(one);
		});
	}

	#remove(client: Client): void {
		this.#clients.delete(client);
		if (this.#clients.size > 0) return;
		this.#stop?.();
		this.#stop = undefined;
	}

	#update(client: Client): void {
		if (client.response.writableNeedDrain) {
			// No update is kept for it: the next one that it gets says all that has changed meanwhile.
			if (++client.missed >= MAX_MISSED) client.response.destroy();
			return;
		}
		client.missed = 0;
		// A rendering that takes longer than a period is waited for.
		if (client.isWaiting) return;
		client.isWaiting = true;
		this.#send(client)
			.catch(this.#parts.onFault)
			.finally(() => {
				client.isWaiting = false;
			});
	}

	async #send(client: Client): Promise<void> {
		const tree = await this.#parts.render(client.view);
		if (!this.#clients.has(client)) return;
		client.response.write(this.#eventBetween(client.sent, tree));
		client.sent = tree;
	}

	#eventBetween(before: Fragment, after: Fragment): string {
		const known = this.#updates.get(after) ?? new WeakMap<Fragment, string>();
		this.#updates.set(after, known);
		const event = known.get(before) ?? eventOf(changes(before, after));
		known.set(before, event);
		return event;
	}
}

/** Of a client that shows nothing yet. */
const NOTHING: Fragment = { id: '', open: '', parts: [], close: '' };

interface Client {
	readonly view: View;
	readonly response: Response;
	/** What it shows. */
	sent: Fragment;
	missed: number;
	/** For a rendering. */
	isWaiting: boolean;
}

/** JSON has no line breaks, which would end the event's data. */
function eventOf(elements: readonly string[]): string {
	return `data: ${JSON.stringify(elements)}\n\n`;
}
