/**
 * The upstream's response breaks RFC 9112, or our stricter reading of it; `cause` may say more exactly how. Never carries bytes
 * of the response.
 */
export class ProtocolError extends Error {}
