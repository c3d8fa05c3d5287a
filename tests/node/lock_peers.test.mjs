// The attempt lock when a program that uses proper-lockfile dies with it, or takes it from a supervisor that was suspended.

import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import test from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';

import lockfile from 'proper-lockfile';

import { clients } from './clients.mjs';
import { TestEnvironment, named, until } from './environment.mjs';

// The shortest that the library takes.
const STALE = 2_000;
const options = { realpath: false, stale: STALE, retries: 0 };
const THEIRS = '0f8fad5b-d9cb-469f-a165-70867728950e';

const READY = `[ "$1" = run ] || exit 0
cd "$(dirname "$0")"
echo run >> runs
while [ -e hold ]; do sleep 0.02; done
printf '{"ready":true,"confidence":1,"blockers":[]}'`;

async function begin(t) {
  const variables = { GROUNDING_ATTEMPT_WAIT_MS: '100', GROUNDING_ATTEMPT_STALE_MS: String(STALE) };
  const environment = new TestEnvironment(t, variables);
  environment.variables.SOLUTION_PREFLIGHT_BIN = environment.script('preflight', READY);
  const repoPath = environment.repository();
  const verdicts = join(environment.home, '.local/state/agent-grounding/solution-verdicts');
  mkdirSync(verdicts, { recursive: true, mode: 0o700 });
  const anchor = join(verdicts, 'task.attempt-lock');
  const client = await clients[0].connect(t, environment);
  const call = async (name, parameters) => (await client.callTool({ name, arguments: parameters })).structuredContent;
  const evaluate = (parameters = {}) => call('solution_evaluate', { id: 'task', repoPath, ...parameters });
  const result = (attemptId) => call('solution_evaluate_result', { id: 'task', attemptId });
  return { environment, repoPath, verdicts, anchor, call, evaluate, result };
}

test('a lock whose holder was killed is taken once it is stale, and not before', async (t) => {
  const { anchor, evaluate, environment } = await begin(t);
  writeFileSync(anchor, '', { mode: 0o600 });
  const program = `import lockfile from 'proper-lockfile';
    await lockfile.lock(process.argv[1], ${JSON.stringify(options)});
    console.log('held');
    setInterval(() => {}, 1000);`;
  const holder = spawn(process.execPath, ['--input-type=module', '--eval', program, anchor], {
    cwd: import.meta.dirname,
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  t.after(() => holder.kill('SIGKILL'));
  await new Promise((resolve) => holder.stdout.once('data', resolve));

  // Alive for more than a stale time: its heartbeat is respected.
  const since = Date.now();
  while (Date.now() - since < STALE * 1.5) {
    assert.equal((await evaluate()).status, 'running-unconfirmed');
    await pause(50);
  }
  holder.kill('SIGKILL');
  const answer = await until(evaluate, named);
  assert.ok(['completed', 'running'].includes(answer.status), JSON.stringify(answer));
  const completed = await until(evaluate, ({ status }) => status === 'completed');
  assert.equal(completed.verdict.ready, true);
  assert.ok(existsSync(join(environment.home, 'runs')));
});

test('an attempt that the log of a holder names is joined by name', async (t) => {
  const { anchor, evaluate, call, verdicts } = await begin(t);
  writeFileSync(anchor, '', { mode: 0o600 });
  const release = await lockfile.lock(anchor, options);
  const start = { kind: 'start', attemptId: THEIRS, id: 'task', head: null, startedAt: new Date().toISOString(), pid: 1, status: 'running' };
  writeFileSync(join(verdicts, 'task.attempts.jsonl'), `${JSON.stringify(start)}\n`, { mode: 0o600 });
  assert.deepEqual(await until(evaluate, named), { status: 'running', id: 'task', attemptId: THEIRS, pollAfterMs: 5000 });
  const refused = await evaluate({ forceNewAttempt: true });
  assert.deepEqual([refused.status, refused.attemptId], ['refused', THEIRS]);
  assert.equal((await call('solution_evaluate_status', { id: 'task' })).status, 'running');
  await release();
  assert.equal((await call('solution_evaluate_status', { id: 'task' })).status, 'unknown');
});

test('a suspended supervisor whose lock was taken is compromised, writes no marker and deletes nothing', async (t) => {
  const { environment, repoPath, anchor, call, evaluate, result, verdicts } = await begin(t);
  const hold = join(environment.home, 'hold');
  writeFileSync(hold, '');
  const { attemptId } = await until(evaluate, named);
  const records = () =>
    readFileSync(join(verdicts, 'task.attempts.jsonl'), 'utf8').trimEnd().split('\n').map((line) => JSON.parse(line));
  const supervisor = records()[0].pid;
  await assert.rejects(lockfile.lock(anchor, options), { code: 'ELOCKED' });

  process.kill(supervisor, 'SIGSTOP');
  let compromised;
  const onCompromised = (error) => { compromised = error; };
  const take = () => lockfile.lock(anchor, { ...options, onCompromised }).catch((error) => error);
  const release = await until(take, (taken) => typeof taken === 'function');
  // The run itself ends well, as soon as its supervisor may go on.
  rmSync(hold);
  process.kill(supervisor, 'SIGCONT');

  const lost = await until(() => result(attemptId), ({ status }) => status !== 'running');
  assert.deepEqual([lost.status, lost.outcomeClass, lost.markerPresent], ['failed', 'compromised', false]);
  assert.match(lost.error, /lost its lock/);
  assert.equal(existsSync(join(verdicts, 'task.json')), false);
  assert.equal((await call('solution_gate', { id: 'task', repoPath })).code, 'no_verdict');
  assert.deepEqual(records().map(({ kind }) => kind), ['start', 'terminal']);
  // The lock is still theirs, beats as theirs, and keeps ours out.
  assert.equal((await evaluate()).status, 'running-unconfirmed');
  await pause(STALE);
  assert.equal(await lockfile.check(anchor, options), true);
  assert.equal(compromised, undefined);
  await release();

  const next = await until(evaluate, ({ status }) => status === 'completed');
  assert.notEqual(next.attemptId, attemptId);
});
