/** The act about gRPC: a call that passes, and one that is refused with a status of gRPC. */
import { grpcStatusInWords } from '../../gates/grpc-status.ts';
import type { Act } from './act.ts';
import { callGrpc, type GrpcAnswer } from './grpc.ts';

const PATH = '/demo.Greeter/SayHello';
const OK = 0;
const UNAUTHENTICATED = 16;

export async function grpcCalls(act: Act): Promise<void> {
	const { screen, workspace } = act.stage;
	screen.heading('A gRPC service behind the proxy: calls pass, and refusals have a gRPC status');
	const expect = async (what: string, token: string | undefined, code: number) => {
		// The first health probe may still be under way.
		const answer = await act.repeat(
			() => callGrpc(act.identity(), PATH, 'hello', token),
			(answer) => answer.code === code,
		);
		const passed = !(answer instanceof Error) && answer.code === code;
		const said = answer instanceof Error ? answer.message : inWords(answer);
		act.report(passed, `h2        ${PATH} ${what}`, passed ? said : `${said}, expected ${grpcStatusInWords(code)}`);
	};
	await expect('tenant-c', workspace.mint('first'), OK);
	await expect('(no token)', undefined, UNAUTHENTICATED);
}

function inWords({ code, text }: GrpcAnswer): string {
	return `${Number.isNaN(code) ? 'no grpc-status' : grpcStatusInWords(code)}: ${text}`;
}
