import type { Rejection } from '@mtls-edge-proxy/gate/gates/rejection.ts';
import type { Trailers } from '../../gates/trailers.ts';
import type { ResponseFields } from '../client/response-fields.ts';
import type { OutgoingBody } from '../upstream/contract.ts';
import type { Exchange } from './exchange.ts';

/** Carries the bytes of both sides. */
export interface Carrier {
	/** Events from the client. @param chunk a view that is valid only during the call. */
	onRequestBody(chunk: Buffer): void;
	/** @param trailers those that may be passed on. */
	onRequestEnd(trailers?: Trailers): void;
	onBodyHeld(bytes: number): void;
	onClientDrained(left: number): void;

	/** What the upstream does. @param chunk a view that is valid only during the call. */
	onBody(chunk: Buffer): void;
	/** @param trailers those that may be passed on. */
	onEnd(trailers?: Trailers): void;
	onWritable(): void;
	/** The upstream's connection holds the request's body in `bytes` of memory, as the upstream does not take it at the moment (HTTP/1.1 only). */
	onUploadHeld(bytes: number): void;
	/** The upstream's connection holds `bytes` of the response, which the client does not take at the moment (HTTP/2 only). */
	onResponseHeld(bytes: number): void;

	/** The request's deadline has passed. */
	onDeadline(): void;
	/** Gives back the memory that it holds. */
	release(): void;
}

/** Handles the bodies of a request and its response: `body/collected.ts` or `body/streaming.ts`. One object per request. */
export interface BodyMode extends Carrier {
	/** The request has passed all gates before the body: calls `forward`, at once or when the body is there. */
	receive(): void;
	/** Checks the declared length once the route is known. */
	admitLength(): Rejection | undefined;
	/** The framing line of the request's body, the bytes received so far, and whether they are complete. */
	outgoing(): OutgoingBody;
	/** The whole request body is still there. */
	readonly canRepeat: boolean;
	/** The upstream is connected, and the client is asked for its body, so it may come. Again if the request is sent again. */
	onAsked(): void;

	/** What the upstream does. */
	onHead(status: number, fields: ResponseFields, length: number, hasBody: boolean): void;
	room(): Buffer | undefined;
	onBodyInRoom(bytes: number): void;
	/** The response has broken off, and the request may be sent again. */
	onResponseLost(): void;
	/** The response is complete for its client, who knows its length, but the upstream has not ended it. Then `onEnd` does. */
	readonly hasAll: boolean;
	/** Ends a gRPC response that has begun with these trailers, which hold the status of its call. @returns `false`: its framing does not allow that. */
	endCall(trailers: Trailers): boolean;
}

export type BodyModeClass = new (request: Exchange) => BodyMode;
