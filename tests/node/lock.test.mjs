// The attempt lock and proper-lockfile respect each other.

import assert from 'node:assert/strict';
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import test from 'node:test';

import lockfile from 'proper-lockfile';

import { clients } from './clients.mjs';
import { TestEnvironment, named, until } from './environment.mjs';

const options = { realpath: false, stale: 30_000, retries: 0 };

test('an evaluation waits for no lock of proper-lockfile, and proper-lockfile finds ours held', async (t) => {
  const environment = new TestEnvironment(t, { GROUNDING_ATTEMPT_WAIT_MS: '100' });
  const waiting = '[ "$1" = run ] || exit 0\ncd "$(dirname "$0")"\nwhile [ ! -e go ]; do sleep 0.02; done\nexit 3';
  environment.variables.SOLUTION_PREFLIGHT_BIN = environment.script('preflight', waiting);
  const repoPath = environment.repository();
  const verdicts = join(environment.home, '.local/state/agent-grounding/solution-verdicts');
  mkdirSync(verdicts, { recursive: true, mode: 0o700 });
  const anchor = join(verdicts, 'task.attempt-lock');
  const client = await clients[0].connect(t, environment);
  const evaluate = async (parameters = {}) => {
    const call = { name: 'solution_evaluate', arguments: { id: 'task', repoPath, ...parameters } };
    return (await client.callTool(call)).structuredContent;
  };

  writeFileSync(anchor, '', { mode: 0o600 });
  const release = await lockfile.lock(anchor, options);
  assert.equal((await evaluate()).status, 'running-unconfirmed');
  assert.equal((await evaluate({ forceNewAttempt: true })).status, 'refused');
  await release();

  assert.equal((await until(evaluate, named)).status, 'running');
  assert.equal(await lockfile.check(anchor, options), true);
  await assert.rejects(lockfile.lock(anchor, options), { code: 'ELOCKED' });

  writeFileSync(join(environment.home, 'go'), '');
  let status;
  do status = (await client.callTool({ name: 'solution_evaluate_status', arguments: { id: 'task' } })).structuredContent;
  while (status.status === 'running');
  assert.equal(status.status, 'failed');
  // The outcome is on record a moment before the lock is given back.
  await (await lockfile.lock(anchor, { ...options, retries: { retries: 50, factor: 1, minTimeout: 20 } }))();
});
