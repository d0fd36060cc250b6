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
	_destroy: { value: Readable.prototype._destroy, writable: true, configurable: true },
};
const RESPONSE_MEMBERS = membersOf(Http2ServerResponse.prototype);

/**
 * A request that notices Express: versions 4 and 5 set `req.res` in front of the exchange. For every request to own these
 * members from its start would cost more than the rest of the gate.
 */
export class Http2Request extends Http2ServerRequest {
	get res(): Http2ServerResponse | undefined {
		return undefined;
	}

	set res(response: Http2ServerResponse) {
		Object.defineProperty(this, 'res', { value: response, writable: true, enumerable: true, configurable: true });
		keepMembers(this, response);
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
	Object.defineProperties(request, REQUEST_MEMBERS);
	Object.defineProperties(response, RESPONSE_MEMBERS);
}

function membersOf(prototype: object): PropertyDescriptorMap {
	const { constructor: _, ...members } = Object.getOwnPropertyDescriptors(prototype) as PropertyDescriptorMap;
	return members;
}
