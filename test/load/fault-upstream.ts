/**
 * The bad HTTP/1.1 upstream: one server per lane, each with its own breaker at the proxy. It parses requests strictly, reports each to the
 * ledger, and responds as the request's kind says. `/health` always succeeds: the next probe closes a breaker that a fault has opened.
 */
import { type AddressInfo, createServer, type Server, type Socket } from 'node:net';
import { ByteReader, EndedEarly } from '../fixtures/byte-reader.ts';
import {
	declaredFraming,
	headerValues,
	MalformedMessage,
	type MessageHead,
	readBody,
	readHead,
} from '../fixtures/http1-message.ts';
import type { Changes } from '../fixtures/wait.ts';
import { BreakerRest, type FaultLane } from './fault-lane.ts';
import type { Solo } from './fault-traits.ts';
import { type Act, type Http1Kind, poison } from './http1-fault-kinds.ts';
import { type Entry, type Ledger, nameOf } from './ledger.ts';
import { faultOfUpload, goodAnswer, UPLOAD_TRAILER } from './plan.ts';
import type { Random } from './random.ts';

export class Lane implements FaultLane {
	readonly prefix: string;
	readonly #ledger: Ledger;
	readonly #changes: Changes;
	readonly #connections = new Set<LaneConnection>();
	#server: Server;
	#port = 0;
	readonly upstream = undefined;
	readonly rest: BreakerRest;
	#busy = false;
	/** What happens to the next connection. */
	#onAccept: Solo | undefined;

	private constructor(number: number, ledger: Ledger, changes: Changes) {
		this.prefix = `/lane-${number}`;
		this.#ledger = ledger;
		this.#changes = changes;
		this.rest = new BreakerRest(changes);
		this.#server = this.#createServer();
	}

	/** @param changes notified when the lane may have become usable. */
	static async start(number: number, ledger: Ledger, changes: Changes): Promise<Lane> {
		const lane = new Lane(number, ledger, changes);
		await lane.#listen(0);
		lane.#port = (lane.#server.address() as AddressInfo).port;
		return lane;
	}

	get route(): FaultLane['route'] {
		return { prefix: this.prefix, upstream: `http://127.0.0.1:${this.#port}` };
	}

	/** Whether its breaker is closed, as far as can be known here. */
	get isUsable(): boolean {
		return this.rest.isOver && !this.#busy;
	}

	/** Reserves the lane until `alone` settles. */
	reserve(): void {
		this.#busy = true;
	}

	/** Handles the next connections as `solo` says while `run` sends requests. The lane has been reserved. */
	async alone<T>(solo: Solo, run: () => Promise<T>): Promise<T> {
		try {
			await this.#closeConnections();
			if (solo === 'refuse') await this.#stopListening();
			else this.#onAccept = solo;
			return await run();
		} finally {
			this.#onAccept = undefined;
			if (!this.#server.listening) await this.#listen(this.#port);
			this.#busy = false;
			this.#changes.notify();
		}
	}

	/**
	 * Sends unsolicited bytes on each idle connection, and waits until the proxy has closed them all.
	 *
	 * @returns whether it has.
	 */
	async poisonIdle(random: Random): Promise<boolean> {
		const idle = this.#used.filter((connection) => connection.isIdle);
		for (const connection of idle) connection.poison(poison(random));
		const gone = () => idle.every((connection) => !this.#connections.has(connection));
		return this.#changes.until(gone, 'the proxy to drop the poisoned connections', POISON_MS).catch(() => false);
	}

	async stop(): Promise<void> {
		await this.#stopListening();
		for (const connection of this.#connections) connection.destroy();
	}

	/** Closes idle connections, as an upstream's idle timeout does. Resolves when they are gone. */
	async #closeConnections(): Promise<void> {
		for (const connection of this.#used) connection.destroy();
		await this.#changes.until(() => this.#used.length === 0, 'the connections to close');
	}

	/** Except connections of health probes: ending those would open the breaker. */
	get #used(): LaneConnection[] {
		return [...this.#connections].filter(({ requests }) => requests > 0);
	}

	async #stopListening(): Promise<void> {
		// Does not wait for the remaining connections.
		this.#server.close();
	}

	async #listen(port: number): Promise<void> {
		// A closed lane is not used again: its late events would look like those of the new one.
		this.#server = this.#createServer();
		await new Promise<void>((resolve, reject) => {
			this.#server.once('error', reject);
			this.#server.listen({ port, host: '127.0.0.1', backlog: 1024 }, resolve);
		});
	}

	#createServer(): Server {
		return createServer({ noDelay: true, pauseOnConnect: true }, (socket) => this.#accept(socket));
	}

	#accept(socket: Socket): void {
		const connection = new LaneConnection(socket, this.#ledger, () => this.rest.onProbe());
		this.#connections.add(connection);
		socket.once('close', () => {
			this.#connections.delete(connection);
			this.#changes.notify();
		});
		switch (this.#onAccept) {
			case 'reset on accept':
				return void socket.resetAndDestroy();
			case 'close on accept':
				return void socket.destroySoon();
			case 'stall on accept':
				// A socket that is never read does not report its end either. A probe's connection must still end.
				socket.setTimeout(STALLED_MS, () => socket.destroy());
				return;
		}
		socket.resume();
		void connection.serve();
	}
}

/** Time for the proxy to close a connection with unsolicited bytes, ms. */
const POISON_MS = 5_000;
const STALLED_MS = 10_000;

class LaneConnection {
	/** No request is in flight. */
	isIdle = true;
	readonly #socket: Socket;
	readonly #reader: ByteReader;
	readonly #ledger: Ledger;
	readonly #onProbe: () => void;
	readonly #closed: Promise<void>;
	/** Without health probes. */
	requests = 0;
	/** Why the connection must not carry another request. */
	#spoiledBy: string | undefined;
	/** Our side is closed. */
	#ended = false;

	constructor(socket: Socket, ledger: Ledger, onProbe: () => void) {
		this.#socket = socket;
		this.#reader = new ByteReader(socket);
		this.#ledger = ledger;
		this.#onProbe = onProbe;
		this.#closed = new Promise((resolve) => socket.once('close', () => resolve()));
	}

	destroy(): void {
		this.#socket.destroy();
	}

	poison(bytes: Buffer): void {
		this.#spoiledBy = 'poison';
		this.#socket.write(bytes);
	}

	async serve(): Promise<void> {
		try {
			// A request that arrives after our side has closed is not read, as with any server.
			while (!this.#ended) {
				const head = await readHead(this.#reader, Number.POSITIVE_INFINITY);
				this.isIdle = false;
				if (head.startLine === 'GET /health HTTP/1.1') this.#answerProbe();
				else await this.#serveRequest(head);
				this.isIdle = true;
			}
		} catch (error) {
			// The end of the connection ends this loop.
			if (error instanceof EndedEarly) return;
			this.#ledger.violate(
				error instanceof MalformedMessage
					? `the upstream got ${error.message}`
					: `the upstream failed: ${(error as Error).stack}`,
			);
			this.destroy();
		}
	}

	#answerProbe(): void {
		this.#socket.write('HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n');
		this.#onProbe();
	}

	async #serveRequest(head: MessageHead): Promise<void> {
		const reused = this.requests++ > 0;
		const entry = this.#identify(head);
		if (entry === undefined) return this.#leave();
		const { kind } = entry.plan;
		if (this.#spoiledBy !== undefined) {
			this.#ledger.violate(`${nameOf(entry.plan)} came on a connection that was spoiled by '${this.#spoiledBy}'`);
		}
		this.#ledger.delivered(entry, reused);
		// Too late: the client has its outcome.
		if (entry.settled) return this.#leave();
		const early = kind.early ? this.#play(entry) : undefined;
		const chunks: Buffer[] = [];
		const trailers = await readBody(
			this.#reader,
			declaredFraming(head.headers) ?? { length: 0 },
			(bytes) => chunks.push(bytes),
			Number.POSITIVE_INFINITY,
		);
		this.#judgeUpload(entry, Buffer.concat(chunks), headerValues(trailers, UPLOAD_TRAILER)[0]);
		await (early ?? this.#play(entry));
	}

	/** Stops reading: bytes that have already arrived would be parsed as a request. */
	#leave(): never {
		this.destroy();
		throw new EndedEarly('closed', Buffer.alloc(0));
	}

	/** Finds the request's entry, and checks that all its identifiers agree. */
	#identify(head: MessageHead): Entry | undefined {
		const only = (name: string) => {
			const values = headerValues(head.headers, name);
			return values.length === 1 ? values[0] : `${values.length} values`;
		};
		const id = only('x-request-id');
		const entry = this.#ledger.find(id);
		if (entry === undefined) {
			this.#ledger.violate(`a request that nobody has sent: ${JSON.stringify(head.raw)}`);
			return undefined;
		}
		const { plan } = entry;
		const seen = `${head.startLine} for ${only('x-proxy-tenant')}`;
		const expected = new RegExp(`^${plan.method} /lane-\\d+/${plan.id} HTTP/1\\.1 for ${plan.tenant}$`);
		if (!expected.test(seen)) this.#ledger.violate(`${nameOf(plan)} arrived as ${seen}`);
		return entry;
	}

	/** Only a body that is complete by its framing gets here. */
	#judgeUpload({ plan }: Entry, body: Buffer, trailer: string | undefined): void {
		const fault = faultOfUpload(plan, body, trailer);
		if (fault !== undefined) this.#ledger.violate(`${nameOf(plan)} arrived with ${fault}`);
		else this.#ledger.checkedBytes += body.length;
	}

	async #play(entry: Entry): Promise<void> {
		const { plan } = entry;
		const { framing, random } = plan;
		const kind = plan.kind as Http1Kind;
		const socket = this.#socket;
		const image = goodAnswer(plan);
		const write = (bytes: Buffer | string) => {
			if (!socket.destroyed && !this.#ended) socket.write(bytes as string, 'latin1');
		};
		const fin = () => {
			this.#ended = true;
			socket.end();
		};
		const reset = () => {
			this.#ended = true;
			// Only after the bytes are sent: a reset discards unsent data. In the same turn, if possible: then bytes
			// and reset arrive together, and a reader may confuse them.
			if (socket.writableLength === 0 && random.chance(0.5)) socket.resetAndDestroy();
			else socket.write('', () => socket.resetAndDestroy());
		};
		const act: Act = {
			random,
			framing,
			image,
			socket,
			closed: this.#closed,
			write,
			fin,
			reset,
		};
		const endsConnection = framing === 'close' && image.bytes.length > image.headEnd;
		entry.played = true;
		if (entry.deliveries > 1 && ENDS_UNANSWERED.has(kind.name)) {
			// A second failure would prove nothing: the second attempt is served.
			entry.repeated = true;
			write(image.bytes);
			if (endsConnection) fin();
			return;
		}
		if (!ENDS_UNANSWERED.has(kind.name)) entry.repeatable = false;
		const lastOfItsConnection = endsConnection || kind.spoils || !kind.fate.startsWith('whole');
		if (lastOfItsConnection) this.#spoiledBy ??= kind.name;
		await kind.play(act);
		if (kind.fate === 'whole' && endsConnection && !this.#ended) fin();
	}
}

/** After these faults a GET may be sent again if the connection was reused. */
const ENDS_UNANSWERED: ReadonlySet<string> = new Set(['closes before the answer', 'resets before the answer']);
