import { grpcResponse } from '@mtls-edge-proxy/gate/gates/grpc.ts';
import type { OwnResponse, Rejection } from '@mtls-edge-proxy/gate/gates/rejection.ts';
import * as rejections from '@mtls-edge-proxy/gate/gates/rejection.ts';
import { ResponseFields } from './response-fields.ts';

/** A refusal as the client gets it. */
export interface RefusalResponse {
	/** HTTP status. */
	readonly status: number;
	readonly fields: ResponseFields;
	/** ASCII; empty: none. */
	readonly body: string;
}

/** Refusals of one form. Those of the table with their own headers are built once. */
class RefusalResponses {
	readonly #form: (refusal: Rejection) => OwnResponse;
	/** By code; valid only for the headers of the table. */
	readonly #known: ReadonlyMap<string, { readonly headers: readonly string[]; readonly response: RefusalResponse }>;

	constructor(form: (refusal: Rejection) => OwnResponse) {
		this.#form = form;
		const table = Object.values(rejections).filter((value) => value instanceof rejections.Rejection);
		this.#known = new Map(
			table.map((refusal) => [refusal.code, { headers: refusal.headers, response: this.#build(refusal, true) }]),
		);
	}

	of(refusal: Rejection): RefusalResponse {
		const known = this.#known.get(refusal.code);
		return known?.headers === refusal.headers ? known.response : this.#build(refusal, false);
	}

	#build(refusal: Rejection, isRepeated: boolean): RefusalResponse {
		const { status, headers, contentType, body } = this.#form(refusal);
		const list = [...headers, 'content-type', contentType, 'content-length', String(body.length)];
		return { status, fields: new ResponseFields(list, isRepeated), body };
	}
}

const HTTP = new RefusalResponses(({ response }) => response);
const GRPC = new RefusalResponses(grpcResponse);

/** @param isGrpc whether a gRPC call is refused (`RequestHead.isGrpc`). */
export function refusalResponse(refusal: Rejection, isGrpc: boolean): RefusalResponse {
	return (isGrpc ? GRPC : HTTP).of(refusal);
}
