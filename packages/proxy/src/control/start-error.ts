/** The proxy cannot start, for a reason that its operator can fix; the message says everything. */
export class StartError extends Error {
	override readonly name = 'StartError';
}
