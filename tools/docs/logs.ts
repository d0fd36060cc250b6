import { LOG_TARGET_MEANINGS } from '../../packages/gate/src/shared/log-targets.ts';
import { ACCESS_MEMBERS } from '../../packages/proxy/src/data/records/access-line.ts';
import { HANDSHAKE_REFUSAL_MEANINGS } from '../../packages/proxy/src/identity/handshake-refusals.ts';
import { code, markdownTable } from './table.ts';

/** docs/reference/logs.md. */
export function logTargets(): string {
	return meanings(['Target', 'Says'], LOG_TARGET_MEANINGS);
}

export function accessMembers(): string {
	return meanings(['Member', 'Says'], ACCESS_MEMBERS);
}

export function handshakeReasons(): string {
	return meanings(['`reason`', 'Meaning'], HANDSHAKE_REFUSAL_MEANINGS);
}

function meanings(head: readonly string[], table: Readonly<Record<string, string>>): string {
	const rows = Object.entries(table).map(([word, meaning]) => [code(word), meaning]);
	return markdownTable(head, rows);
}
