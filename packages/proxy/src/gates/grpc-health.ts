/** `grpc.health.v1.Health/Check`: one message each way, each with one field, so no library reads or writes them. */

export const HEALTH_CHECK_PATH = '/grpc.health.v1.Health/Check';

/** Bytes before each message: whether it is compressed, and its length. */
const PREFIX = 5;
/** Field 1 of HealthCheckRequest, a string: its number and type in one byte. */
const SERVICE = 0x0a;
/** Field 1 of HealthCheckResponse, an enumeration. */
const STATUS = 0x08;
const SERVING = 1;
/** A name of up to so many bytes has a length of one byte. */
export const MAX_SERVICE_BYTES = 127;

/** More than any answer has, bytes. */
export const MAX_ANSWER = 256;

/** @param service its name, ASCII, at most `MAX_SERVICE_BYTES`; empty: the whole server. */
export function healthRequest(service: string): Buffer {
	const message = service === '' ? [] : [SERVICE, service.length, ...Buffer.from(service, 'latin1')];
	return Buffer.from([0, 0, 0, 0, message.length, ...message]);
}

/** In words, for operators, by the value of the enumeration. UNKNOWN, the first one, need not be sent. */
const STATUSES = ['unknown', 'serving', 'not serving', 'service unknown'] as const;

/** @returns `undefined`: it serves. Otherwise why it does not, in words for operators. */
export function healthProblem(body: Buffer): string | undefined {
	const status = statusIn(body);
	if (status === undefined) return 'no answer of grpc.health.v1';
	return status === SERVING ? undefined : (STATUSES[status] ?? `status ${status}`);
}

/** The one field of the one message, in the one form that servers write. */
function statusIn(body: Buffer): number | undefined {
	if (body.length < PREFIX || body[0] !== 0 || body.readUInt32BE(1) !== body.length - PREFIX) return undefined;
	if (body.length === PREFIX) return 0;
	const value = body[PREFIX + 1];
	const isOneField = body.length === PREFIX + 2 && body[PREFIX] === STATUS;
	return isOneField && value! < 0x80 ? value : undefined;
}
