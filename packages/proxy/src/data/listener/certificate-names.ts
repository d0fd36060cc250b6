import type { X509Certificate } from 'node:crypto';
import { inOneLine } from '@mtls-edge-proxy/gate/identity/distinguished-name.ts';
import type { LogFields } from '@mtls-edge-proxy/gate/shared/log.ts';

/**
 * Whose certificate it is, as it says itself: the client may have written anything into it. The issuer is whole up to the length that
 * any real name has, as an operator may copy it into the list of what is revoked.
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

/** Characters in the log. A CA whose name is longer than this is a stranger's. */
const MAX_SUBJECT = 256;
const MAX_ISSUER = 4096;
/** RFC 5280 section 4.1.2.2 allows 20 octets. */
const MAX_SERIAL = 128;
