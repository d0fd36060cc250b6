import type { X509Certificate } from 'node:crypto';
import { inOneLine } from '@mtls-edge-proxy/gate/identity/distinguished-name.ts';
import type { LogFields } from '@mtls-edge-proxy/gate/shared/log.ts';

/**
 * Log fields that identify a certificate. Their content is the client's and may be anything. Any real issuer's name fits uncut,
 * since operators copy it into the revocation list.
 */
export function namesOf({ subject, issuer, serialNumber }: X509Certificate): LogFields {
	return {
		subject: shortened(subject, MAX_SUBJECT),
		serial: serialNumber.slice(0, MAX_SERIAL),
		issuer: shortened(issuer, MAX_ISSUER),
	};
}

function shortened(name: string | undefined, most: number): string | undefined {
	return name !== undefined && name.length > most ? `${inOneLine(name.slice(0, most))}…` : name && inOneLine(name);
}

/** Characters in the log. No real CA has a name longer than `MAX_ISSUER`. */
const MAX_SUBJECT = 256;
const MAX_ISSUER = 4096;
/** RFC 5280 section 4.1.2.2 allows 20 octets. */
const MAX_SERIAL = 128;
