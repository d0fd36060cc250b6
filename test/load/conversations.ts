/**
 * Conversations through the proxy: WebSockets between each pair of protocols, and gRPC streams if the build forwards them. Every message of
 * a run is unique. Each returns to its sender, in order. Each side ends some conversations, in order or abruptly.
 */
import { once } from 'node:events';
import type { ClientHttp2Session } from 'node:http2';
import type { Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Protocol } from '../fixtures/client-request.ts';
import type { Target } from '../fixtures/tls-client.ts';
import { within } from '../fixtures/wait.ts';
import { connectHttp2, NotOpened, openWebSocket } from '../fixtures/web-socket-client.ts';
import { checkedBody, SHORTEST_BODY } from './checked-body.ts';
import type { Ledger } from './ledger.ts';
import { TENANTS } from './plan.ts';
import { Random } from './random.ts';
import type { TalkUpstreams } from './talk-upstreams.ts';
import { SocketTalk, StreamTalk, type Talk } from './talks.ts';
import { tokenOf } from './tokens.ts';

/** Which side ends a conversation, and how. */
type Ending = 'client closes' | 'client cuts' | 'upstream closes' | 'upstream cuts';
const ENDINGS: readonly Ending[] = ['client closes', 'client cuts', 'upstream closes', 'upstream cuts'];

/** The client's protocol, then the upstream's. */
type Kind = 'h1 to h1' | 'h1 to h2' | 'h2 to h1' | 'h2 to h2' | 'gRPC stream';

interface Conversation {
	readonly number: number;
	readonly id: string;
	readonly tenant: string;
	readonly kind: Kind;
	readonly ending: Ending;
	readonly messages: readonly Buffer[];
	/** The next message waits for the response to the last one. */
	readonly takesTurns: boolean;
}

interface TalkOptions {
	readonly seed: number;
	readonly mode: 'collected' | 'streaming';
	readonly threadsDie?: boolean;
	/** Conversations at once. */
	readonly talkers?: number;
}

/** Clients that run conversations until stopped. */
export class Conversations {
	/** Opened conversations. */
	opened = 0;
	/** Opened WebSockets. */
	tunnels = 0;
	/** WebSockets whose handshake got no response; the proxy may have opened them. */
	unanswered = 0;
	/** The most conversations at once. */
	readonly talkers: number;
	/** Messages that returned unchanged. */
	messages = 0;
	/** Counts by kind and ending. */
	readonly counts = new Map<string, number>();
	/** Addresses of their upstreams. */
	readonly authorities: readonly string[];
	readonly #target: Target;
	readonly #ledger: Ledger;
	readonly #options: TalkOptions;
	#session: Promise<ClientHttp2Session> | undefined;
	#number = 0;

	constructor(target: Target, ledger: Ledger, { authorities }: TalkUpstreams, options: TalkOptions) {
		this.talkers = options.talkers ?? 0;
		this.authorities = authorities;
		this.#target = target;
		this.#ledger = ledger;
		this.#options = options;
	}

	async run(isOver: () => boolean): Promise<void> {
		const talk = async () => {
			while (!isOver()) await this.#converse();
		};
		await Promise.all(Array.from({ length: this.talkers }, talk));
		(await this.#session?.catch(() => undefined))?.destroy();
	}

	async #converse(): Promise<void> {
		const conversation = this.#plan(this.#number++);
		const { id, kind, ending } = conversation;
		const name = `${id} (${kind}, ${ending})`;
		let port = 0;
		const begun = performance.now();
		// On a busy machine, more time than the route allows can pass between two messages.
		const mayBeCut = () => kind === 'gRPC stream' && performance.now() - begun > this.#ledger.rules.limitMs / 2;
		try {
			const talk = kind === 'gRPC stream' ? await this.#openStream(conversation) : await this.#openSocket(conversation);
			port = talk.port;
			this.opened++;
			if (kind !== 'gRPC stream') this.tunnels++;
			const fault = await exchange(conversation, talk, mayBeCut, (count) => {
				this.messages += count;
			});
			const key = `${kind}, ${ending}`;
			this.counts.set(key, (this.counts.get(key) ?? 0) + 1);
			if (fault === undefined) return;
			if (this.#options.threadsDie && fault.isLoss) this.#ledger.lost.push({ what: `${name}: ${fault.what}`, port });
			else this.#ledger.violate(`${name}: ${fault.what}`);
		} catch (error) {
			// A thread that dies loses its handshakes. A busy machine can be too slow for the handshake timeout.
			const isLate = error instanceof NotOpened && error.status === 504;
			if (kind !== 'gRPC stream' && !(error instanceof NotOpened)) this.unanswered++;
			if (!this.#options.threadsDie && !isLate) this.#ledger.violate(`${name}: ${(error as Error).message}`);
			await sleep(100);
		}
	}

	#plan(number: number): Conversation {
		const random = new Random(this.#options.seed, number, 2);
		const kinds: readonly Kind[] = ['h1 to h1', 'h1 to h2', 'h2 to h1', 'h2 to h2'];
		const id = `talk-${number}`;
		const tenant = `tenant-${random.between(1, TENANTS)}`;
		const count = random.between(1, 20);
		const messages = Array.from({ length: count }, (_, i) => {
			const length = random.chance(0.05) ? random.between(60_000, 200_000) : random.between(SHORTEST_BODY, 2000);
			return checkedBody('up', { number: number * 32 + i, id: `${id}-${i}`, tenant }, length);
		});
		return {
			number,
			id,
			tenant,
			kind: this.#options.mode === 'streaming' && random.chance(0.3) ? 'gRPC stream' : random.pick(kinds),
			ending: random.pick(ENDINGS),
			messages,
			takesTurns: random.chance(0.5),
		};
	}

	async #openSocket(conversation: Conversation): Promise<Talk> {
		const [client, , upstream] = conversation.kind.split(' ') as [Protocol, 'to', Protocol];
		const session = client === 'h2' ? await this.#sharedSession() : undefined;
		const path = pathOf(`/talk-${upstream}`, conversation);
		const token = await tokenOf(conversation.tenant);
		const open = await openWebSocket(client, this.#target, { path, token, ...(session && { session }) });
		const socket = session?.socket ?? (open.ws as unknown as { _socket: Socket })._socket;
		return new SocketTalk(open, socket.localPort!);
	}

	async #openStream(conversation: Conversation): Promise<Talk> {
		const session = await this.#sharedSession();
		const stream = session.request(
			{
				':method': 'POST',
				':path': pathOf('/talk-h2', conversation),
				':authority': 'localhost',
				authorization: `Bearer ${await tokenOf(conversation.tenant)}`,
				'content-type': 'application/grpc',
				te: 'trailers',
			},
			{ endStream: false },
		);
		stream.on('error', () => {});
		const answered = Promise.race([once(stream, 'response'), once(stream, 'close')]);
		const [head] = await within(answered, 'the answer to a stream');
		if (head?.[':status'] !== 200 || head['grpc-status'] !== undefined) {
			throw new NotOpened(head?.['grpc-status'] === '4' ? 504 : Number(head?.[':status']), head ?? {});
		}
		return new StreamTalk(stream, session.socket!.localPort!);
	}

	/** All HTTP/2 clients share one connection. */
	async #sharedSession(): Promise<ClientHttp2Session> {
		const before = this.#session;
		const known = await before?.catch(() => undefined);
		if (known !== undefined && !known.destroyed && !known.closed) return known;
		// Another client may have replaced it already.
		if (this.#session === before) this.#session = connectHttp2(this.#target);
		return await this.#session!;
	}
}

interface TalkFault {
	readonly what: string;
	/** What the client sees when the thread of its connection dies. */
	readonly isLoss: boolean;
}

/** Sends all messages, compares the echoes, and ends the conversation. @param mayBeCut by the proxy. @param count counts echoes. */
async function exchange(
	{ kind, messages, takesTurns, ending }: Conversation,
	talk: Talk,
	mayBeCut: () => boolean,
	count: (messages: number) => void,
): Promise<TalkFault | undefined> {
	// An abrupt end may come in the middle of a message.
	const wanted = ending === 'client cuts' ? messages.slice(0, messages.length >> 1) : messages;
	if (!takesTurns) for (const message of messages) talk.send(message);
	for (const [i, message] of wanted.entries()) {
		if (takesTurns) talk.send(message);
		const answer = await within(talk.next(), 'the answer to a message');
		if (answer === undefined) {
			// A reset can overtake messages, which are then lost.
			const mayLose = !takesTurns || kind === 'gRPC stream' || kind.endsWith('to h2');
			if (ending === 'upstream cuts' && mayLose && (await talk.end) !== 'in order') return undefined;
			if (mayBeCut()) return undefined;
			return { what: `ended (${await talk.end}) behind ${i} of ${messages.length} messages`, isLoss: true };
		}
		if (!answer.equals(message)) {
			return { what: `message ${i} came back as ${JSON.stringify(answer.toString('latin1', 0, 99))}`, isLoss: false };
		}
		count(1);
	}
	if (ending === 'client cuts') return void talk.cut();
	if (ending === 'client closes') talk.close();
	const end = await within(talk.end, 'the end of a conversation');
	const expected = ending === 'upstream cuts' ? 'upstream lost' : 'in order';
	return end === expected || mayBeCut() ? undefined : { what: `it ended ${end}`, isLoss: true };
}

function pathOf(prefix: string, { id, messages, ending }: Conversation): string {
	return `${prefix}/${id}?${new URLSearchParams({ count: String(messages.length), ending })}`;
}
