import type { PemMaterial } from '@mtls-edge-proxy/gate/shared/pem-material.ts';
import { MAX_FILE_BYTES, readRegularFile } from '@mtls-edge-proxy/gate/shared/regular-file.ts';
import { readCertificates } from '@mtls-edge-proxy/gate/tls/certificates.ts';
import { judgeTlsMaterial, type TlsNames, type TlsRole } from '@mtls-edge-proxy/gate/tls/tls-material.ts';
import type { Config, ConfigFiles } from '../../config/config.ts';
import { ConfigError, type ConfigProblem, problemAt } from '../../config/error.ts';

/** Reads the files that a configuration names, and collects what is wrong or doubtful in them. */
export class Findings {
	readonly files: ConfigFiles;
	readonly problems: ConfigProblem[] = [];
	readonly warnings: ConfigProblem[] = [];

	constructor(files: ConfigFiles) {
		this.files = files;
	}

	/** @param path `undefined` if the configuration names no file at that key. */
	file(key: string, path: string | undefined): NamedFile {
		return new NamedFile(this, key, path);
	}

	/**
	 * Reads a certificate, its key and CAs, and judges them together.
	 *
	 * @param places full key and path of each, in the order of their problems.
	 * @returns their texts; `isUsable` concerns each by itself, and the key's relation to its certificate.
	 */
	async pemTexts(
		places: Readonly<Record<keyof TlsNames, readonly [key: string, path: string | undefined]>>,
		minVersion: PemMaterial['minVersion'],
		now: Date,
		role?: TlsRole,
	) {
		const texts: Partial<Record<keyof TlsNames, string>> = {};
		const names = {} as Record<keyof TlsNames, string>;
		const files = {} as Record<keyof TlsNames, NamedFile>;
		for (const [of, [key, path]] of Object.entries(places) as [keyof TlsNames, readonly [string, string?]][]) {
			files[of] = this.file(key, path);
			const text = await files[of].text();
			if (text !== undefined) texts[of] = text;
			names[of] = `${key} (${path})`;
		}
		const { problems, warnings } = judgeTlsMaterial({ ...texts, minVersion }, names, now, role);
		for (const { of, message } of problems) files[of].fault(message);
		for (const { of, message, failsCheck } of warnings) files[of].warn(message, failsCheck && { failsCheck });
		return { ...texts, isUsable: (of: keyof TlsNames) => !problems.some((problem) => problem.of === of) };
	}
}

export class NamedFile {
	readonly #findings: Findings;
	readonly #key: string;
	readonly #path: string | undefined;

	constructor(findings: Findings, key: string, path: string | undefined) {
		this.#findings = findings;
		this.#key = key;
		this.#path = path;
	}

	fault(message: string): void {
		this.#findings.problems.push(this.#about(message));
	}

	warn(message: string, marks?: Pick<ConfigProblem, 'failsCheck'>): void {
		this.#findings.warnings.push({ ...this.#about(message), ...marks });
	}

	/**
	 * One file at a time, so that a file system that hangs takes only one of libuv's four threads.
	 *
	 * @returns `undefined` if the configuration names no file; also if it cannot be read, which is a fault.
	 */
	async bytes(maxBytes = MAX_FILE_BYTES): Promise<Buffer | undefined> {
		try {
			return this.#path === undefined ? undefined : await readRegularFile(this.#path, { maxBytes });
		} catch (error) {
			return void this.fault(`cannot be read: ${(error as Error).message}`);
		}
	}

	/** As text, without the byte order mark that some editors write. Comments may be in any encoding. */
	async text(): Promise<string | undefined> {
		const bytes = await this.bytes();
		return bytes && new TextDecoder().decode(bytes);
	}

	/** @param parse throws the fault in words. */
	async parsed<Value>(parse: (text: string) => Value): Promise<Value | undefined> {
		const text = await this.text();
		try {
			return text === undefined ? undefined : parse(text);
		} catch (error) {
			return void this.fault((error as Error).message);
		}
	}

	#about(message: string): ConfigProblem {
		return problemAt(this.#findings.files.lines, this.#key, message, this.#path);
	}
}

/** @throws Error if the text has no certificates. @returns the text. */
export function certificates(pem: string): string {
	readCertificates(pem);
	return pem;
}

/** The specification of one resource, read from files. */
export interface ReadSpec<Spec> {
	readonly spec: Spec;
	readonly warnings: readonly ConfigProblem[];
}

/**
 * Reads a part of the configuration's files for a reload.
 *
 * @param judge its result is used only if it has found no problems.
 * @throws ConfigError naming every problem.
 */
export async function readSpec<Spec>(
	config: Config,
	judge: (found: Findings) => Promise<Spec | undefined>,
): Promise<ReadSpec<Spec>> {
	const found = new Findings(config);
	const spec = await judge(found);
	if (spec === undefined || found.problems.length > 0) throw new ConfigError(config.path, found.problems);
	return { spec, warnings: found.warnings };
}
