/** Has body bytes that could not go out yet. */
export interface Sender {
	/** Whose it is, where tenants share the connection. */
	readonly tenant: string | undefined;
	/** Sends a frame of them. @returns whether it could send more at once. */
	sendFrame(): boolean;
}

/**
 * The streams that wait to send on a connection. Each tenant has its turn, however many streams it has: with one stream it gets as much of the
 * connection as another one with a hundred. The streams of a tenant take its turns one after the other.
 */
export class SenderTurns {
	/** In the order of their turns. Only the first may have no sender left. */
	readonly #turns: Turn[] = [];

	/** Has it called when its turn comes. */
	wait(sender: Sender): void {
		for (const turn of this.#turns) if (turn.tenant === sender.tenant) return void turn.senders.push(sender);
		this.#turns.push({ tenant: sender.tenant, senders: [sender] });
	}

	/** It has nothing to send any more. A peer that opens no window could have us remember any number of those. */
	forget(sender: Sender): void {
		const at = this.#turns.findIndex(({ tenant }) => tenant === sender.tenant);
		if (at === -1) return;
		const { senders } = this.#turns[at]!;
		const place = senders.indexOf(sender);
		if (place !== -1) senders.splice(place, 1);
		// The first is having its turn, maybe.
		if (senders.length === 0 && at > 0) this.#turns.splice(at, 1);
	}

	/** Lets the next one send a frame. @returns false: nobody waits. */
	next(): boolean {
		const turn = this.#turns[0];
		if (turn === undefined) return false;
		const sender = turn.senders.shift();
		if (sender?.sendFrame()) turn.senders.push(sender);
		if (this.#turns.length === 1 && turn.senders.length > 0) return true;
		this.#turns.shift();
		if (turn.senders.length > 0) this.#turns.push(turn);
		return true;
	}

	clear(): void {
		this.#turns.length = 0;
	}
}

interface Turn {
	readonly tenant: string | undefined;
	readonly senders: Sender[];
}
