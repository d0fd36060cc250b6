/** A stream with body bytes that could not be sent yet. */
export interface Sender {
	/** The tenant of the stream, if tenants share the connection. */
	readonly tenant: string | undefined;
	/** Sends one frame. @returns whether it could send another one now. */
	sendFrame(): boolean;
}

/**
 * The streams that wait to send on a connection, in turns by tenant: a tenant with one stream gets as much of the connection as a
 * tenant with a hundred. The streams of one tenant share its turns.
 */
export class SenderTurns {
	/** In order. Only the first may have no sender left. */
	readonly #turns: Turn[] = [];

	wait(sender: Sender): void {
		for (const turn of this.#turns) if (turn.tenant === sender.tenant) return void turn.senders.push(sender);
		this.#turns.push({ tenant: sender.tenant, senders: [sender] });
	}

	/** The sender has nothing to send any more. Without this, a peer that opens no window could fill the memory with closed streams. */
	forget(sender: Sender): void {
		const at = this.#turns.findIndex(({ tenant }) => tenant === sender.tenant);
		if (at === -1) return;
		const { senders } = this.#turns[at]!;
		const place = senders.indexOf(sender);
		if (place !== -1) senders.splice(place, 1);
		// The first may be in its turn right now.
		if (senders.length === 0 && at > 0) this.#turns.splice(at, 1);
	}

	/** Lets the next sender send a frame. @returns `false`: no sender waits. */
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
