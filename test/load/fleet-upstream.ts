/** An address of the fleet's upstream, in its own process: `node fleet-upstream.ts PORT`. Responds with the client address that the proxy sent. */
import { createServer } from 'node:http';

const server = createServer({ keepAliveTimeout: 60_000 }, (request, response) => {
	response.end(request.headers['x-forwarded-for']);
});
server.listen(Number(process.argv[2]), '127.0.0.1', () => process.send?.('listening'));
// No parent is left that could end it.
process.on('disconnect', () => process.exit());
