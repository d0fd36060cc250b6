import { addAbortListener } from 'node:events';
import type * as connectRpc from '@connectrpc/connect';
import type { ConnectNodeAdapterOptions } from '@connectrpc/connect-node';
import { checkGuard, checkLibrary } from './admission.ts';
import { authorizationOf, type Caller, certificateOf } from './caller.ts';
import { GateError } from './error.ts';
import type { Admitted, Gate } from './gate.ts';
import { SCOPES } from './options.ts';
import { grpcStatusOf, signalHeaders } from './refusal.ts';

type Received = Parameters<NonNullable<ConnectNodeAdapterOptions['contextValues']>>[0];

const received: connectRpc.ContextKey<Received | undefined> = { id: Symbol('request'), defaultValue: undefined };
const admitted: connectRpc.ContextKey<Admitted | undefined> = { id: Symbol('verdict'), defaultValue: undefined };

/**
 * Options of `connectNodeAdapter` (`@connectrpc/connect-node` 2.2 and later): a refused call ends with its status, and its handler is not
 * called. Add interceptors of your own behind these. An older adapter does not know `requestGate`, so the interceptor ends all its calls.
 *
 * @param library `import * as connect from '@connectrpc/connect'`.
 * @param options `scopes`: what the token of each call must have; see `Caller.scopes`.
 */
export function gated(
	gate: Gate,
	library: Pick<typeof connectRpc, 'ConnectError' | 'createContextValues'>,
	...given: [options?: Pick<Caller, 'scopes'>]
): Required<Pick<ConnectNodeAdapterOptions, 'contextValues' | 'requestGate' | 'interceptors'>> {
	const { scopes = [] } = checkGuard<Pick<Caller, 'scopes'>>(gate, given, { scopes: SCOPES });
	const { ConnectError, createContextValues } = checkLibrary(
		library,
		['ConnectError', 'createContextValues'],
		'@connectrpc/connect',
		LIBRARY,
	);
	return {
		interceptors: [
			(next) => (call) => {
				if (call.contextValues.get(admitted) === undefined) throw new ConnectError(NO_GATE, INTERNAL);
				return next(call);
			},
		],
		contextValues: (req) => createContextValues().set(received, req),
		requestGate({ values, signal }) {
			const req = values.get(received)!;
			const verdict = gate.check(authorizationOf(req), { certificate: () => certificateOf(req), scopes });
			if (!verdict.ok) {
				const { refusal } = verdict;
				throw new ConnectError(refusal.body, grpcStatusOf(refusal), signalHeaders(refusal));
			}
			values.set(admitted, verdict);
			// The signal is aborted when the call is over, also without an error.
			addAbortListener(signal, () => verdict.slot?.release());
		},
	};
}

const LIBRARY = "import * as connect from '@connectrpc/connect' and gated(gate, connect)";
const NO_GATE = 'the call did not pass the gate, which needs @connectrpc/connect-node 2.2 or later';
/** `Code.Internal`. */
const INTERNAL = 13;

/** For handlers: who calls. @param values of the handler's context. */
export function admittedOf(values: connectRpc.ContextValues): Admitted {
	const verdict = values.get(admitted);
	if (verdict !== undefined) return verdict;
	throw new GateError(
		'ERR_GATE_NO_CLAIMS',
		'this call did not pass a gate: give gated(gate, connect) to connectNodeAdapter',
	);
}
