/** The proxy cannot start, for a reason that its operator can do something about; the message is all that is needed. */
export class StartError extends Error {
	override readonly name = 'StartError';
}
