import type { ConfigProblem } from './error.ts';
import type { TomlDocument, TomlTable } from './toml.ts';

/** `crl_required` without any CRL: nobody would ever be let in. */
export function crlConflicts(document: TomlDocument): ConfigProblem[] {
	const tls = document.root.tls as TomlTable | undefined;
	if (tls?.crl_required !== true || tls.crl_path !== undefined) return [];
	const line = document.lineOf(['tls', 'crl_required']);
	return [
		{
			...(line !== undefined && { line }),
			key: 'tls.crl_required',
			message: 'is true, but there is no tls.crl_path, so no client could connect; set tls.crl_path, or take this out',
		},
	];
}
