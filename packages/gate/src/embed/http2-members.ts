import { Http2ServerRequest, Http2ServerResponse } from 'node:http2';
import { Readable } from 'node:stream';

/**
 * Express gives each request and response the prototype of HTTP/1.1 ones. On those of HTTP/2, Node's own reading then fails
 * where nobody can catch it, and ends the process. An exchange of prototypes cannot be prevented, but it does not reach own
 * properties: given the members of HTTP/2 as its own, an object keeps working whatever its prototype becomes.
 */

/** The members that HTTP/1.1's prototypes have in another meaning. */
const REQUEST_MEMBERS: PropertyDescriptorMap = {
	...membersOf(Http2ServerRequest.prototype),
	// IncomingMessage has one of its own.
	_destroy: { value: Readable.prototype._destroy, writable: true, configurable: true },
};
const RESPONSE_MEMBERS = membersOf(Http2ServerResponse.prototype);

/** What somebody else has put into `req.res`. */
const OTHER = Symbol('other');

/**
 * A request that notices Express: versions 4 and 5 set `req.res` in front of the exchange. For every request to own these
 * members from its start would cost more than the rest of the gate.
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

/** For an exchange that was not noticed. @returns whether there was one. */
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

/** But for members that are its own already, such as a `writeHead` that a middleware has wrapped. */
function makeOwn(target: object, members: PropertyDescriptorMap): void {
	for (const key of Reflect.ownKeys(members)) {
		if (!Object.hasOwn(target, key)) Object.defineProperty(target, key, members[key as string]!);
	}
}

function membersOf(prototype: object): PropertyDescriptorMap {
	const { constructor: _, ...members } = Object.getOwnPropertyDescriptors(prototype) as PropertyDescriptorMap;
	return members;
}
