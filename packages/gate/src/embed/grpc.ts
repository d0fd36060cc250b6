import type * as grpcJs from '@grpc/grpc-js';
import { checkGuard, checkLibrary } from './admission.ts';
import type { Caller } from './caller.ts';
import { GateError } from './error.ts';
import type { Admitted, Gate } from './gate.ts';
import { SCOPES } from './options.ts';
import { grpcStatusOf, signalHeaders } from './refusal.ts';

const verdicts = new WeakMap<object, Admitted>();

/**
 * A server interceptor for `@grpc/grpc-js`: a refused call ends with its gRPC status, and its handler is not called.
 *
 * @param library `import * as grpc from '@grpc/grpc-js'`.
 * @param options `scopes`: what the token of each call must have; see `Caller.scopes`.
 */
export function gateInterceptor(
	gate: Gate,
	library: Pick<typeof grpcJs, 'Metadata' | 'ServerInterceptingCall'>,
	...given: [options?: Pick<Caller, 'scopes'>]
): grpcJs.ServerInterceptor {
	const { scopes = [] } = checkGuard<Pick<Caller, 'scopes'>>(gate, given, { scopes: SCOPES });
	const { Metadata, ServerInterceptingCall } = checkLibrary(
		library,
		['Metadata', 'ServerInterceptingCall'],
		'@grpc/grpc-js',
		LIBRARY,
	);
	return (_method, call) => {
		let verdict: ReturnType<Gate['check']> | undefined;
		return new ServerInterceptingCall(call, {
			start: (begin) =>
				begin({
					onReceiveMetadata(metadata, next) {
						const certificate = () => call.getAuthContext().sslPeerCertificate?.raw;
						verdict = gate.check(metadata.get('authorization').map(String), { certificate, scopes });
						if (verdict.ok) {
							verdicts.set(metadata, verdict);
							return next(metadata);
						}
						const { refusal } = verdict;
						const fields = Metadata.fromHttp2Headers(signalHeaders(refusal));
						call.sendStatus({ code: grpcStatusOf(refusal), details: refusal.body, metadata: fields });
					},
					// However the call has ended.
					onCancel: () => verdict?.ok && verdict.slot?.release(),
				}),
		});
	};
}

const LIBRARY = "import * as grpc from '@grpc/grpc-js' and gateInterceptor(gate, grpc)";

/** For handlers: who calls. @param metadata of the call. */
export function admittedOf(metadata: grpcJs.Metadata): Admitted {
	const verdict = verdicts.get(metadata);
	if (verdict !== undefined) return verdict;
	throw new GateError(
		'ERR_GATE_NO_CLAIMS',
		'this call did not pass a gate: give gateInterceptor(gate, grpc) to the server',
	);
}
