/** The example service of the embedded gate. Its source is packages/proxy/src/cli/embed-demo; README.md beside this file runs it. */
import { runEmbedDemo } from '../../packages/proxy/src/cli/embed-demo/service.ts';

process.exit(await runEmbedDemo(process.env, { stdout: process.stdout, stderr: process.stderr, signals: process }));
