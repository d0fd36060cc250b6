import { grpcResponse } from '@mtls-edge-proxy/gate/gates/grpc.ts';
import type { OwnResponse, Rejection } from '@mtls-edge-proxy/gate/gates/rejection.ts';
import { ResponseFields } from './response-fields.ts';

/** A refusal as the client gets it. */
export interface RefusalResponse {
	/** HTTP status. */
	readonly status: number;
	readonly fields: ResponseFields;
	/** ASCII; empty: none. */
	readonly body: string;
}

/** Refusals of one form. Each is built once if the headers of its code never change. */
class RefusalResponses {
	readonly #form: (refusal: Rejection) => OwnResponse;
	/** By code; valid only for the headers of the refusal that was given first. */
	readonly #known = new Map<string, { readonly headers: readonly string[]; readonly answer: RefusalResponse }>();

	constructor(form: (refusal: Rejection) => OwnResponse) {
		this.#form = form;
	}

	of(refusal: Rejection): RefusalResponse {
		const known = this.#known.get(refusal.code);
		if (known?.headers === refusal.headers) return known.answer;
		const { status, headers, contentType, body } = this.#form(refusal);
		const list = [...headers, 'content-type', contentType, 'content-length', String(body.length)];
		const answer = { status, fields: new ResponseFields(list, known === undefined), body };
		if (known === undefined) this.#known.set(refusal.code, { headers: refusal.headers, answer });
		return answer;
	}
}

const HTTP = new RefusalResponses(({ answer }) => answer);
const GRPC = new RefusalResponses(grpcResponse);

/** @param isGrpc whether a gRPC call is refused (`RequestHead.isGrpc`). */
export function refusalResponse(refusal: Rejection, isGrpc: boolean): RefusalResponse {
	return (isGrpc ? GRPC : HTTP).of(refusal);
}

/** The lines that tell upstreams the request's origin; the same for a whole connection. */
export function forwardedLines(peer: string): string {
	return `x-forwarded-for: ${peer}\r\nx-forwarded-proto: https\r\n`;
}
