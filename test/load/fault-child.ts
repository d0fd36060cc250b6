/** An upstream in a separate process, so that it can be killed and stopped: HTTP/2 in clear text, which echoes bodies and WebSocket messages. */
import { echo, startHttp2Upstream } from '../fixtures/h2-upstream.ts';
import { echo as echoMessages, takeWebSockets } from '../fixtures/web-socket-upstream.ts';

const webSockets = takeWebSockets(echoMessages);
await startHttp2Upstream({
	port: Number(process.argv[2]),
	settings: { enableConnectProtocol: true },
	script: (stream, headers, body) => {
		if (headers[':path']!.endsWith('/never')) return;
		(headers[':method'] === 'CONNECT' ? webSockets : echo)(stream, headers, body);
	},
});
process.send!('listening');
process.on('disconnect', () => process.exit());
