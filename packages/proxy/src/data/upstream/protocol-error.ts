/**
 * The upstream's answer breaks RFC 9112, or our stricter reading of it; `cause` may say more exactly how. Never carries bytes
 * of the answer.
 */
export class ProtocolError extends Error {}
