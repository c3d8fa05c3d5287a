// The official clients of both generations, in both protocol eras.

import { Client as ModernClient } from '@modelcontextprotocol/client';
import { StdioClientTransport as ModernTransport } from '@modelcontextprotocol/client/stdio';
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StdioClientTransport } from '@modelcontextprotocol/sdk/client/stdio.js';

import { shim } from './environment.mjs';

const info = { name: 'grounding-tests', version: '0' };

function parameters(environment) {
  return { command: shim, cwd: environment.home, env: environment.variables, stderr: 'pipe' };
}

async function open(test, client, transport) {
  client.reported = [];
  client.onerror = (error) => client.reported.push(error.message);
  await client.connect(transport);
  test.after(() => client.close());
  return client;
}

export const clients = [
  {
    name: 'SDK 1.x',
    connect: (test, environment) => open(test, new Client(info), new StdioClientTransport(parameters(environment))),
  },
  ...['legacy', 'auto', { pin: '2026-07-28' }].map((mode) => ({
    name: `client 2.x, ${mode.pin ?? mode}`,
    connect: (test, environment) =>
      open(
        test,
        new ModernClient(info, { versionNegotiation: { mode } }),
        new ModernTransport(parameters(environment)),
      ),
  })),
];
