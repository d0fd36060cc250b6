import type { X509Certificate } from 'node:crypto';
import type { LogFields } from '../shared/log.ts';

/** Whose certificate it is, as it says itself: the client may have written anything into it, and as much as it liked. */
export function namesOf({ subject, issuer, serialNumber }: X509Certificate): LogFields {
	return { subject: oneLine(subject), serial: oneLine(serialNumber), issuer: oneLine(issuer) };
}

/** Node puts each attribute of a name on a line of its own. */
function oneLine(text: string | undefined): string | undefined {
	if (text === undefined) return undefined;
	const shown = text.slice(0, MAX_NAME).replaceAll('\n', ', ');
	return text.length > MAX_NAME ? `${shown}…` : shown;
}

/** Characters of a certificate's name in the log. */
const MAX_NAME = 256;
