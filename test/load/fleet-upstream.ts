/** An address of the fleet's upstream, a process of its own: `node fleet-upstream.ts PORT`. It answers with the client's address as the proxy has told it. */
import { createServer } from 'node:http';

const server = createServer({ keepAliveTimeout: 60_000 }, (request, response) => {
	response.end(request.headers['x-forwarded-for']);
});
server.listen(Number(process.argv[2]), '127.0.0.1', () => process.send?.('listening'));
// Nobody is left to end it.
process.on('disconnect', () => process.exit());
