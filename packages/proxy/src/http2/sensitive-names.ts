/**
 * Names of fields that this thread codes as never indexed (RFC 7541 section 7.1.3): a following intermediary must not index them either.
 *
 * An intermediary must keep this mark of a field that it forwards (section 6.2.3). The proxy keeps it by name: once a sender has marked a
 * field, all fields of that name are coded as never indexed. So a mark needs no place in heads, lines and memos.
 */
const names = new Set(['set-cookie', 'cookie', 'authorization', ':path']);
/** From so many names on, all are sensitive. */
const MAX_NAMES = 256;
/** Longer names are not remembered: from the first one on, all names are sensitive. Characters. */
const MAX_LENGTH = 128;

let areAll = false;
let changes = 0;
const listeners: (() => void)[] = [];

export function isSensitive(name: string): boolean {
	return areAll || names.has(name);
}

/** A sender has marked a field of this name. @param name in lower case. */
export function markSensitive(name: string): void {
	if (isSensitive(name)) return;
	if (names.size < MAX_NAMES && name.length <= MAX_LENGTH) names.add(name);
	else areAll = true;
	changes++;
	for (const listener of listeners) listener();
}

/** Changes with every new sensitive name. */
export function sensitivityVersion(): number {
	return changes;
}

/** For memos of coded fields. */
export function whenSensitivityChanges(listener: () => void): void {
	listeners.push(listener);
}
