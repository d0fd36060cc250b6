import { Http2ServerRequest, Http2ServerResponse } from 'node:http2';
import { Readable } from 'node:stream';

/**
 * Express replaces the prototype of each request and response by that of HTTP/1.1. On HTTP/2 objects, Node's internal reads then
 * throw where nothing can catch it, and the process ends. The replacement cannot be prevented, but it does not affect own properties:
 * an object with the HTTP/2 members as its own properties works with any prototype.
 */

/** The members that have another meaning in HTTP/1.1's prototypes. */
const REQUEST_MEMBERS: PropertyDescriptorMap = {
	...membersOf(Http2ServerRequest.prototype),
	// `IncomingMessage` overrides it.
	_destroy: { value: Readable.prototype._destroy, writable: true, configurable: true },
};
const RESPONSE_MEMBERS = membersOf(Http2ServerResponse.prototype);

/** A value of `req.res` that is not a response, set by other code. */
const OTHER = Symbol('other');

/**
 * A request that detects Express: versions 4 and 5 set `req.res` before they replace the prototype. To give every request these
 * members from the start would cost more than the rest of the gate.
 */
export class Http2Request extends Http2ServerRequest {
	declare [OTHER]?: unknown;

	get res(): unknown {
		return this[OTHER];
	}

	set res(value: unknown) {
		if (value instanceof Http2ServerResponse) {
			Object.defineProperty(this, 'res', { value, writable: true, enumerable: true, configurable: true });
			keepMembers(this, value);
		} else {
			this[OTHER] = value;
		}
	}
}

/** Repairs a replaced prototype that was not detected before. @returns whether there was one. */
export function repairPrototypes(request: object, response: object): boolean {
	if (Object.getPrototypeOf(request) === Http2Request.prototype) {
		if (Object.getPrototypeOf(response) === Http2ServerResponse.prototype) return false;
	}
	keepMembers(request, response);
	return true;
}

function keepMembers(request: object, response: object): void {
	makeOwn(request, REQUEST_MEMBERS);
	makeOwn(response, RESPONSE_MEMBERS);
}

/** Skips existing own members, such as a `writeHead` that a middleware has wrapped. */
function makeOwn(target: object, members: PropertyDescriptorMap): void {
	for (const key of Reflect.ownKeys(members)) {
		if (!Object.hasOwn(target, key)) Object.defineProperty(target, key, members[key as string]!);
	}
}

function membersOf(prototype: object): PropertyDescriptorMap {
	const { constructor: _, ...members } = Object.getOwnPropertyDescriptors(prototype) as PropertyDescriptorMap;
	return members;
}
