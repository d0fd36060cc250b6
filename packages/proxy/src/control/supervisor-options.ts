import type { Logger } from '@mtls-edge-proxy/gate/shared/log.ts';
import type { StartFiles } from './files/inspection.ts';
import type { ListenAddress } from './listen.ts';
import type { LogOutput } from './log-output.ts';

export interface SupervisorOptions {
	readonly files: StartFiles;
	readonly bind: ListenAddress;
	readonly metricsBind: ListenAddress;
	/** Worker threads, at least 1. */
	readonly workers: number;
	/** Whether the admin listener has the status page. */
	readonly statusPage: boolean;
	/** The module that each worker thread runs. */
	readonly workerUrl: URL;
	/** `RUST_LOG`, for the workers. */
	readonly logFilter: string;
	readonly log: Logger;
	/** For the workers' log records. */
	readonly output: LogOutput;
	readonly version: string;
	readonly bodyMode: string;
	/** Called when connections are accepted. From then on SIGTERM and SIGINT must end the process by a drain, with the given function. */
	readonly onAccepting: (stop: (signal: string) => void) => void;
	readonly exit: (code: number) => void;
}
