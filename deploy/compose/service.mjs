// A sample upstream: says who is calling, as the edge has told it. Nobody else reaches it, so it may believe that.
import { createServer } from 'node:http';

const name = process.env.SERVICE ?? 'service';

createServer(({ method, url, headers }, response) => {
	if (url === '/health') return response.end('ok');
	response.setHeader('content-type', 'application/json');
	response.end(`${JSON.stringify({ service: name, method, path: url, tenant: headers['x-proxy-tenant'] })}\n`);
}).listen(Number(process.env.PORT ?? 8080));

process.once('SIGTERM', () => process.exit(0));
