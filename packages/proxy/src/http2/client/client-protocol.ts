import { UNDECLARED } from '../../gates/body-limit.ts';
import { sizeError } from '../errors.ts';
import { CODE, INITIAL_WINDOW, PREFACE, SETTING, settingsFrame, windowUpdateFrame } from '../frame-format.ts';
import { FrameProtocol, OTHER_LENGTH } from '../frame-protocol.ts';
import type { HeaderBlock } from '../hpack-decoder.ts';
import { COSTS, type ThreadShare } from '../peer-budget.ts';
import type { ClientStream } from './client-stream.ts';
import { ClientStreams, type StreamLimits } from './client-streams.ts';
import { type ReceivedField, readResponse, readTrailers, responseDecoder } from './response-fields.ts';
import { ServerBudget } from './server-budget.ts';

/** Events that the protocol reports to the owner of the socket. */
export interface ClientEvents {
	/** `output` has frames to send. */
	onOutput(): void;
	/** SETTINGS of the server have arrived, the first or later ones. */
	onSettings(): void;
	/** A stream has ended, but not because the connection did. */
	onStreamEnd(): void;
	/** The server accepts no more streams. */
	onGoaway(): void;
	/** The server has acknowledged a PING. */
	onPong(): void;
	/** The share has lent tokens for the first time in this turn of the event loop. */
	onLent(): void;
}

interface ClientLimits extends StreamLimits {
	/** Limit of the names and values of a head, bytes. */
	readonly maxHeaderBytes: number;
}

/**
 * The client's side of an HTTP/2 connection (RFC 9113): responses go to their streams. The server is trusted only with its own
 * responses: everything unsolicited is an error or costs tokens of a bounded budget.
 */
export class ClientProtocol extends FrameProtocol<ClientStream, ReceivedField> {
	override readonly streams: ClientStreams;
	/** Bytes of acknowledgements written for the server. The owner of the socket resets it when the socket's buffer is empty. */
	acknowledged = 0;
	protected override readonly words = {
		preface: 'no HTTP/2 preface',
		push: 'PUSH_PROMISE, which the proxy has disabled',
	};
	readonly #events: ClientEvents;
	readonly #limits: ClientLimits;
	readonly #share: ThreadShare;
	readonly #budget: ServerBudget;
	/** Since when the connection's send window has been empty, monotonic milliseconds; `undefined`: it is open. */
	#emptySince: number | undefined;

	constructor(events: ClientEvents, limits: ClientLimits, share: ThreadShare) {
		const { maxHeaderBytes } = limits;
		const budget = new ServerBudget(share);
		super(() => events.onOutput(), share, budget, responseDecoder(maxHeaderBytes), maxHeaderBytes, false);
		this.#events = events;
		this.#share = share;
		this.#budget = budget;
		this.#limits = limits;
		this.streams = new ClientStreams(this.output, limits, () => events.onStreamEnd());
	}

	/** Section 3.4: writes the preface and the client's SETTINGS. */
	begin(): void {
		const { window, maxHeaderBytes } = this.#limits;
		this.output.write(
			PREFACE +
				settingsFrame([
					...[SETTING.ENABLE_PUSH, 0],
					...[SETTING.INITIAL_WINDOW_SIZE, window],
					...[SETTING.MAX_HEADER_LIST_SIZE, maxHeaderBytes],
				]) +
				windowUpdateFrame(0, this.streams.fullWindow - INITIAL_WINDOW),
		);
	}

	/**
	 * Bytes have arrived, and their read has been charged to the share. `receive` follows, perhaps later.
	 *
	 * @param isHeld earlier bytes come first, and wait for tokens.
	 */
	onRead(isHeld: boolean): void {
		this.#budget.read(isHeld);
	}

	protected override takesData(stream: ClientStream): boolean {
		if (!stream.hasHead) this.streams.fail(stream, CODE.PROTOCOL_ERROR, 'DATA before the head');
		return stream.hasHead;
	}

	protected override onBody(stream: ClientStream, bytes: Buffer): void {
		if (stream.hasBody) stream.onBody(bytes);
		else this.streams.fail(stream, CODE.PROTOCOL_ERROR, 'a body in a response that cannot have one');
	}

	/** Data of open responses pays for the control frames that it causes. */
	protected override chargeData(stream: ClientStream | undefined, length: number, endStream: boolean): void {
		if (length > 0 && stream !== undefined) this.#budget.data(length);
		else if (length === 0 && !endStream) this.#budget.take(COSTS.emptyData, this.streams.now);
	}

	protected override onMessageEnd(stream: ClientStream, trailers: readonly string[] | undefined): void {
		this.#budget.response();
		this.decoder.earn();
		this.streams.onResponseEnd(stream, trailers);
	}

	/** Section 6.3: checked, then ignored. The frame is deprecated. */
	protected override onPriority(_id: number, _bytes: Buffer, from: number, to: number): void {
		if (to - from !== 5) throw sizeError('PRIORITY of a wrong length');
		this.#budget.unknown(to - from, this.streams.now);
	}

	protected override onBlock(id: number, block: HeaderBlock<ReceivedField>, price: number): void {
		const { streams } = this;
		const { endStream } = this.blocks;
		const stream = streams.receiving(id, 'HEADERS');
		if (stream === undefined) return this.#budget.lateHead(price, streams.isLateHead(id), streams.now);
		if (!stream.hasHead) return this.#onHead(stream, block, endStream, price);
		this.#lend(price);
		// RFC 9113 section 8.5.
		if (stream.isTunnel) streams.fail(stream, CODE.PROTOCOL_ERROR, 'HEADERS in a tunnel');
		else this.#onTrailers(stream, block, endStream);
	}

	/** For work that a request has asked for: the head and the trailers of its response. */
	#lend(tokens: number): void {
		if (this.#share.lend(tokens)) this.#events.onLent();
	}

	#onHead(stream: ClientStream, block: HeaderBlock<ReceivedField>, endStream: boolean, price: number): void {
		const facts = readResponse(block);
		if (typeof facts !== 'string' && facts.status < 200) return this.#onInterim(stream, endStream, price);
		this.#lend(price);
		if (typeof facts === 'string') return this.streams.fail(stream, CODE.PROTOCOL_ERROR, facts);
		const { status, length } = facts;
		stream.hasHead = true;
		// RFC 9110 section 9.3.6: `content-length` has no meaning here.
		stream.isTunnel = stream.method === 'CONNECT' && status < 300;
		// RFC 9110 sections 9.3.2 and 15.3.5 to 15.4.5.
		const isWithout = stream.method === 'HEAD' || status === 204 || status === 205 || status === 304;
		stream.hasBody = stream.isTunnel || !isWithout;
		stream.declaredLength = stream.hasBody && !stream.isTunnel ? length : UNDECLARED;
		if (endStream && stream.declaredLength > 0) return this.streams.fail(stream, CODE.PROTOCOL_ERROR, OTHER_LENGTH);
		stream.onResponse(facts, endStream);
		if (endStream && !stream.isClosed) this.endMessage(stream);
	}

	#onInterim(stream: ClientStream, endStream: boolean, price: number): void {
		const { streams } = this;
		this.#budget.interim(price, stream.interim, streams.now);
		if (endStream) return streams.fail(stream, CODE.PROTOCOL_ERROR, 'interim response that ends the stream');
		if (++stream.interim > MAX_INTERIM) streams.fail(stream, CODE.ENHANCE_YOUR_CALM, 'too many interim responses');
	}

	#onTrailers(stream: ClientStream, block: HeaderBlock<ReceivedField>, endStream: boolean): void {
		const trailers = endStream ? readTrailers(block) : undefined;
		if (trailers === undefined) return this.streams.fail(stream, CODE.PROTOCOL_ERROR, 'malformed trailers');
		this.endMessage(stream, trailers.length === 0 ? undefined : trailers);
	}

	protected override onRstStream(id: number, code: number): void {
		const stream = this.streams.get(id);
		if (stream === undefined) this.#budget.take(COSTS.reset, this.streams.now);
		else this.streams.resetByServer(stream, code);
	}

	protected override onSettings(): void {
		this.#events.onSettings();
	}

	protected override onPong(): void {
		this.#events.onPong();
	}

	protected override acknowledge(frame: string): void {
		this.acknowledged += frame.length;
		super.acknowledge(frame);
	}

	protected override onGoaway(lastId: number): void {
		this.streams.goAway(lastId);
		this.#events.onGoaway();
	}

	protected override onWindow(): void {
		this.#emptySince = undefined;
	}

	/** Call it when the content of `output` is sent. @param now monotonic milliseconds. */
	sends(now: number): void {
		if (this.output.window <= 0) this.#emptySince ??= now;
	}

	/**
	 * Whether request bodies have waited for the connection's window for longer than a reading server needs. Many servers return it
	 * only as their handlers read, so one handler that reads nothing blocks all others.
	 *
	 * @param now monotonic milliseconds.
	 */
	isStarved(now: number): boolean {
		return this.#emptySince !== undefined && now - this.#emptySince > STARVED_MS;
	}
}

/** A healthy bulk upload also empties the window, but for a shorter time than this, ms. */
const STARVED_MS = 100;
/** More interim responses before the final one are a flood. */
const MAX_INTERIM = 32;
