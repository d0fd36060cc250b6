import type { Identifiers } from '../../gates/field-kinds.ts';
import type { Trailers } from '../../gates/trailers.ts';
import { ConnectionError, protocolError } from '../../http2/errors.ts';
import { CODE, INITIAL_WINDOW, PREFACE, SETTING, settingsFrame, windowUpdateFrame } from '../../http2/frame-format.ts';
import { FrameProtocol } from '../../http2/frame-protocol.ts';
import { uint31At } from '../../http2/frame-reader.ts';
import type { HeaderBlock } from '../../http2/hpack-decoder.ts';
import { COSTS, type ThreadShare } from '../../http2/peer-budget.ts';
import { FrameBudget } from './frame-budget.ts';
import {
	areTrailers,
	maxFieldsOf,
	type RequestFacts,
	type RequestField,
	RequestFieldsReader,
	requestDecoder,
	trailersOf,
} from './request-fields.ts';
import type { Stream } from './stream.ts';
import { Streams, type StreamsEvents } from './streams.ts';

/** Events for the owner of the socket. */
export interface ProtocolEvents extends StreamsEvents {
	/** A request has been understood, or refused for reasons that deserve a response. @returns its stream. */
	onRequest(id: number, facts: RequestFacts, endStream: boolean, sendWindow: number): Stream;
	/** A stream was reset before there was a request. @param what the fault, in words. */
	onMalformed(what: string, code: number): void;
	/** `output` has something to send. */
	onOutput(): void;
	/** An acknowledgement of a ping of ours. @param opaque its 8 bytes. */
	onPong(opaque: string): void;
	/** The client has sent GOAWAY: take no more streams. */
	onGoodbye(): void;
}

export interface ProtocolLimits {
	readonly maxConcurrentStreams: number;
	readonly maxHeaderBytes: number;
	/** Some route takes WebSockets, so the extended CONNECT is announced (RFC 8441 section 3). */
	readonly extendsConnect?: boolean;
	/** As for `readHttp2Fields`. */
	readonly identifiers?: Identifiers;
}

/** The server's side of an HTTP/2 connection (RFC 9113): requests go out as events. */
export class Protocol extends FrameProtocol<Stream, RequestField> {
	override readonly streams: Streams;
	protected override readonly words = {
		preface: 'the first frame is not SETTINGS',
		push: 'PUSH_PROMISE from a client',
	};
	readonly #events: ProtocolEvents;
	readonly #limits: ProtocolLimits;
	readonly #requests: RequestFieldsReader;
	readonly #budget: FrameBudget;
	/** Bytes of the preface received so far. */
	#preface = 0;

	constructor(events: ProtocolEvents, limits: ProtocolLimits, share: ThreadShare) {
		const { maxConcurrentStreams, maxHeaderBytes, identifiers = 'none', extendsConnect = false } = limits;
		const budget = new FrameBudget(share);
		super(() => events.onOutput(), share, budget, requestDecoder(maxHeaderBytes), maxHeaderBytes, true);
		this.#events = events;
		this.#budget = budget;
		this.#limits = limits;
		this.streams = new Streams(this.output, budget, maxConcurrentStreams, events);
		this.#requests = new RequestFieldsReader(maxHeaderBytes, identifiers, extendsConnect);
	}

	/** Sends our SETTINGS at once (RFC 9113 section 3.4). */
	begin(): void {
		const { maxConcurrentStreams, maxHeaderBytes, extendsConnect } = this.#limits;
		this.output.write(
			settingsFrame([
				...[SETTING.ENABLE_PUSH, 0],
				...[SETTING.MAX_CONCURRENT_STREAMS, maxConcurrentStreams],
				...[SETTING.MAX_HEADER_LIST_SIZE, maxHeaderBytes],
				...(extendsConnect ? [SETTING.ENABLE_CONNECT_PROTOCOL, 1] : []),
			]) + windowUpdateFrame(0, this.streams.fullWindow - INITIAL_WINDOW),
		);
	}

	override receive(bytes: Buffer, now: number): number {
		if (this.#preface === PREFACE.length || this.streams.isOver) return super.receive(bytes, now);
		const rest = this.#readPreface(bytes);
		return bytes.length - rest.length + (rest.length > 0 ? super.receive(rest, now) : 0);
	}

	/** A request has been admitted. */
	earn(): void {
		this.decoder.earn();
	}

	protected override takesData({ unwanted }: Stream, length: number): boolean {
		if (unwanted !== undefined) this.#budget.unwantedData(length);
		return true;
	}

	protected override onBody(stream: Stream, bytes: Buffer): void {
		if (stream.unwanted === undefined) stream.onBody(bytes);
		else this.streams.drop(stream, bytes.length);
	}

	protected override chargeData(stream: Stream | undefined, length: number, endStream: boolean): void {
		this.#budget.data(length, endStream, this.streams.now, stream?.isTunnel);
	}

	protected override onMessageEnd(stream: Stream, trailers: Trailers | undefined): void {
		this.streams.onRequestEnd(stream, trailers);
	}

	protected override onBlock(id: number, block: HeaderBlock<RequestField>, price: number): void {
		const { streams } = this;
		this.#budget.head(price);
		const isWanted = streams.isIdle(id)
			? this.#onRequest(id, block, price)
			: !streams.isDisowned(id) && this.#onTrailers(id, block, price);
		if (!isWanted) this.#budget.vainHead(price, streams.now);
	}

	/** @returns whether it has become a request; otherwise the stream is refused. */
	#onRequest(id: number, block: HeaderBlock<RequestField>, price: number): boolean {
		const { streams } = this;
		const { endStream, dependsOnItself } = this.blocks;
		const { maxConcurrentStreams, maxHeaderBytes } = this.#limits;
		streams.take(id);
		if (streams.size >= maxConcurrentStreams) return this.#refuseStream(id);
		if (dependsOnItself) return this.#refuseMalformed(id, CODE.PROTOCOL_ERROR, DEPENDS_ON_ITSELF);
		if (block.count > maxFieldsOf(maxHeaderBytes)) {
			return this.#refuseMalformed(id, CODE.ENHANCE_YOUR_CALM, 'too many fields');
		}
		const facts = this.#requests.read(block, endStream);
		if (typeof facts === 'string') return this.#refuseMalformed(id, CODE.PROTOCOL_ERROR, facts);
		const stream = this.#events.onRequest(id, facts, endStream, streams.sendWindow);
		stream.headPrice = price;
		streams.add(stream);
		return true;
	}

	#refuseMalformed(id: number, code: number, what: string): false {
		this.#events.onMalformed(what, code);
		this.streams.refuse(id, code);
		return false;
	}

	/** Trailers (section 8.1), or a header block on a stream that takes none. @returns whether they have ended a request. */
	#onTrailers(id: number, block: HeaderBlock<RequestField>, price: number): boolean {
		if (this.streams.isUnknown(id)) throw protocolError('a stream identifier below an earlier one');
		const open = this.streams.receiving(id, 'HEADERS');
		if (open === undefined) return false;
		const { endStream, dependsOnItself } = this.blocks;
		// A block over a limit is incomplete.
		if (block.fields.length !== block.count) this.streams.fail(open, CODE.ENHANCE_YOUR_CALM, 'too many fields');
		else if (endStream && !dependsOnItself && areTrailers(block)) {
			this.#budget.trailers(price, block.bytes, open);
			this.endMessage(open, trailersOf(block));
		} else this.streams.fail(open, CODE.PROTOCOL_ERROR, 'malformed trailers');
		return true;
	}

	/** Section 5.1.2. A client that knows the limit is at fault; one that cannot know it yet may try again. */
	#refuseStream(id: number): false {
		if (this.isSettled) {
			throw new ConnectionError(CODE.PROTOCOL_ERROR, 'stream-limit', 'more streams than allowed');
		}
		this.streams.refuse(id, CODE.REFUSED_STREAM);
		return false;
	}

	/** Section 5.3.1 of RFC 7540: a stream that depends on itself is an error, although priorities are obsolete. */
	protected override onPriority(id: number, bytes: Buffer, from: number, to: number): void {
		this.#budget.take(COSTS.priority, this.streams.now);
		// An error of the stream (section 6.3) even if its length is wrong.
		if (to - from !== 5) this.streams.failAt(id, CODE.FRAME_SIZE_ERROR, 'PRIORITY of a wrong length');
		else if (uint31At(bytes, from) === id) this.streams.failAt(id, CODE.PROTOCOL_ERROR, DEPENDS_ON_ITSELF);
	}

	protected override onRstStream(id: number): void {
		this.#budget.take(COSTS.reset, this.streams.now);
		this.streams.resetByClient(id);
	}

	protected override onPong(opaque: string): void {
		this.#events.onPong(opaque);
	}

	protected override onGoaway(_lastId: number, code: number): void {
		if (code !== CODE.NO_ERROR) {
			throw new ConnectionError(CODE.NO_ERROR, 'client-error', 'the client has ended the connection with an error');
		}
		this.#events.onGoodbye();
	}

	#readPreface(bytes: Buffer): Buffer {
		const length = Math.min(PREFACE.length - this.#preface, bytes.length);
		if (bytes.toString('latin1', 0, length) !== PREFACE.slice(this.#preface, this.#preface + length)) {
			throw new ConnectionError(CODE.PROTOCOL_ERROR, 'preface', 'no HTTP/2 preface');
		}
		this.#preface += length;
		return bytes.subarray(length);
	}
}

const DEPENDS_ON_ITSELF = 'a stream that depends on itself';
