/** `grpc.health.v1.Health/Check`: one message each way, each with one field. That needs no library. */

export const HEALTH_CHECK_PATH = '/grpc.health.v1.Health/Check';

/** Bytes before each message: whether it is compressed, and its length. */
const PREFIX = 5;
/** Field 1 of HealthCheckRequest, a string: its number and type in one byte. */
const SERVICE = 0x0a;
/** Field 1 of HealthCheckResponse, an enumeration. */
const STATUS = 0x08;
const SERVING = 1;
/** The length of such a name still fits in one byte. */
export const MAX_SERVICE_BYTES = 127;

/** Longer than any response, bytes. */
export const MAX_RESPONSE = 256;

/** @param service its name, ASCII, at most `MAX_SERVICE_BYTES`; empty: the whole server. */
export function healthRequest(service: string): Buffer {
	const message = service === '' ? [] : [SERVICE, service.length, ...Buffer.from(service, 'latin1')];
	return Buffer.from([0, 0, 0, 0, message.length, ...message]);
}

/** By the value of the enumeration, in words for operators. UNKNOWN, the first one, may be left out of the message. */
const STATUSES = ['unknown', 'serving', 'not serving', 'service unknown'] as const;

/** @returns `undefined`: the service is serving; otherwise why not, in words for operators. */
export function healthProblem(body: Buffer): string | undefined {
	const status = statusIn(body);
	if (status === undefined) return 'no response of grpc.health.v1';
	return status === SERVING ? undefined : (STATUSES[status] ?? `status ${status}`);
}

/** Reads the only field of the only message, in the only form that servers write. */
function statusIn(body: Buffer): number | undefined {
	if (body.length < PREFIX || body[0] !== 0 || body.readUInt32BE(1) !== body.length - PREFIX) return undefined;
	if (body.length === PREFIX) return 0;
	const value = body[PREFIX + 1];
	const isOneField = body.length === PREFIX + 2 && body[PREFIX] === STATUS;
	return isOneField && value! < 0x80 ? value : undefined;
}
