import { ENDED, RESET_BY_US } from '../closed-streams.ts';
import { ConnectionError, protocolError } from '../errors.ts';
import { CODE, goawayFrame, MAX_STREAM_ID, rstStreamFrame } from '../frame-format.ts';
import type { Output } from '../output.ts';
import type { PeerSettings } from '../peer-settings.ts';
import { StreamSet } from '../stream-set.ts';
import type { ClientStream, StreamEnd } from './client-stream.ts';

export interface StreamLimits {
	/** Streams at once, even if the server allows more. */
	readonly maxStreams: number;
	/** Streams at once before the server's SETTINGS. */
	readonly untoldStreams: number;
	/** Receive window of each stream, bytes. */
	readonly window: number;
}

/** The streams that this side has opened. */
export class ClientStreams extends StreamSet<ClientStream> {
	/** No more streams may be opened: the server has sent GOAWAY, the identifiers are used up, or the owner has retired the connection. */
	isGoingAway = false;
	/** Streams that this side has reset: servers tolerate a limited number (CVE-2023-44487). */
	resets = 0;
	maxStreams: number;
	readonly #limits: StreamLimits;
	readonly #onStreamEnd: () => void;
	#nextId = 1;

	/** @param onStreamEnd called when a stream has ended, but not because the connection did. */
	constructor(output: Output, limits: StreamLimits, onStreamEnd: () => void) {
		super(output, limits.maxStreams, limits.window, REMEMBERED_RESETS);
		this.#limits = limits;
		this.#onStreamEnd = onStreamEnd;
		this.maxStreams = Math.min(limits.maxStreams, limits.untoldStreams);
	}

	override apply(settings: PeerSettings): void {
		this.maxStreams = Math.min(this.#limits.maxStreams, settings.maxStreams);
		super.apply(settings);
	}

	get hasRoom(): boolean {
		return !this.isGoingAway && !this.isOver && this.size < this.maxStreams;
	}

	/** Called by streams with their first frame: identifiers are in that order, and are not reused (section 5.1.1). */
	begin(stream: ClientStream): void {
		stream.id = this.#nextId;
		stream.sendWindow = this.sendWindow;
		stream.receiveWindow = this.#limits.window;
		stream.fullWindow = this.#limits.window;
		this.#nextId += 2;
		if (this.#nextId > MAX_STREAM_ID) this.isGoingAway = true;
		this.open.set(stream.id, stream);
	}

	override isIdle(id: number): boolean {
		return (id & 1) === 0 || id >= this.#nextId;
	}

	override receiving(id: number, what: 'DATA' | 'HEADERS'): ClientStream | undefined {
		const stream = this.open.get(id);
		if (stream !== undefined) {
			if (stream.isRemoteOpen) return stream;
			this.fail(stream, CODE.STREAM_CLOSED, `${what} after the end of the response`);
			return undefined;
		}
		if (this.isIdle(id)) throw protocolError(`${what} on an idle stream`);
		if (this.closed.how(id) === RESET_BY_US) return undefined;
		throw new ConnectionError(CODE.STREAM_CLOSED, 'stream-closed', `${what} on a stream that has ended`);
	}

	/** Whether a head that is ignored was on its way when its stream was closed. */
	isLateHead(id: number): boolean {
		return this.closed.takesLateHead(id);
	}

	override fail(stream: ClientStream, code: number, what: string): void {
		this.#reset(stream, code);
		stream.onClosed({ kind: 'malformed', cause: what });
	}

	/** The request is abandoned. The stream gets no more events. */
	cancel(stream: ClientStream): void {
		if (!stream.isClosed) this.#reset(stream, CODE.CANCEL);
	}

	#reset(stream: ClientStream, code: number): void {
		this.resets++;
		this.output.write(rstStreamFrame(stream.id, code));
		this.remove(stream, RESET_BY_US);
	}

	onResponseEnd(stream: ClientStream, trailers: readonly string[] | undefined): void {
		stream.isRemoteOpen = false;
		// Section 5.1, half-closed: the client's side may go on.
		if (stream.isTunnel && stream.isLocalOpen) return stream.onResponseEnd(undefined);
		// The server answered before the end of the request, and does not need the rest.
		if (stream.isLocalOpen) this.#reset(stream, CODE.NO_ERROR);
		else this.remove(stream, ENDED);
		stream.onResponseEnd(trailers);
	}

	/** The server has sent RST_STREAM. */
	resetByServer(stream: ClientStream, code: number): void {
		this.remove(stream, ENDED);
		// Section 8.7.
		if (code === CODE.REFUSED_STREAM && !stream.hasHead) return stream.onClosed(REFUSED);
		const kind = code === CODE.ENHANCE_YOUR_CALM && !stream.hasHead ? 'excessive' : 'reset';
		stream.onClosed({ kind, cause: `stream reset with ${CODE_NAMES.get(code) ?? 'an unknown code'}` });
	}

	/** Called by tunnels: the client's side has ended, after the server's. */
	tunnelEnded(stream: ClientStream): void {
		if (!stream.isClosed) this.remove(stream, ENDED);
	}

	protected override remove(stream: ClientStream, how: number): void {
		super.remove(stream, how);
		this.#onStreamEnd();
	}

	// --- The end of the connection (section 6.8). ---

	/** The server has not processed streams above `lastId`. The others go on. */
	goAway(lastId: number): void {
		this.isGoingAway = true;
		this.open.forEach((stream) => {
			if (stream.id <= lastId || stream.isClosed) return;
			this.remove(stream, RESET_BY_US);
			stream.onClosed(NOT_PROCESSED);
		});
	}

	/** Ends the connection. The content of `output` may still be sent. @returns the streams that were open; they get no event. */
	end(code: number): ClientStream[] {
		if (this.isOver) return [];
		this.output.write(goawayFrame(0, code));
		const open: ClientStream[] = [];
		this.open.forEach((stream) => {
			open.push(stream);
			stream.isClosed = true;
			stream.dropPending();
			this.open.delete(stream.id);
		});
		this.isOver = true;
		return open;
	}
}

/** About as many as a connection resets in its life. Late frames on any of its resets are not errors. */
const REMEMBERED_RESETS = 512;
const REFUSED: StreamEnd = { kind: 'refused', cause: 'stream refused before it was processed' };
const NOT_PROCESSED: StreamEnd = { kind: 'refused', cause: 'not processed: the upstream was about to close (GOAWAY)' };
const CODE_NAMES = new Map<number, string>(Object.entries(CODE).map(([name, code]) => [code, name]));
