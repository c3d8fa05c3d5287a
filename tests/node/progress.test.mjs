// A ping never shares a read with the answer: the clients would report it as one for an unknown token.

import assert from 'node:assert/strict';
import test from 'node:test';

import { clients } from './clients.mjs';
import { TestEnvironment } from './environment.mjs';

const ROUNDS = 100;
const AT_ONCE = 4;

// Ends at a time that differs from run to run, so that a ping may be due at any distance from the answer.
const SLOW = `[ "$1" = run ] || exit 0
sleep 0.0$((10 + $$ % 90))
printf '{"ready":true,"confidence":1,"blockers":[]}'`;

for (const { name, connect } of clients.slice(0, 2)) {
  test(`${name}: ${ROUNDS} evaluations with pings, no unknown token`, async (t) => {
    const environment = new TestEnvironment(t, { GROUNDING_PROGRESS_MS: '10' });
    environment.variables.SOLUTION_PREFLIGHT_BIN = environment.script('preflight', SLOW);
    const repoPath = environment.repository();
    const client = await connect(t, environment);
    let pings = 0;
    const evaluate = async (id) => {
      let progress = 0;
      const onprogress = (ping) => {
        assert.ok(Number.isInteger(ping.progress) && ping.progress > progress, `${ping.progress} after ${progress}`);
        assert.equal(ping.total, undefined);
        progress = ping.progress;
        pings += 1;
      };
      const call = { name: 'solution_evaluate', arguments: { id, repoPath } };
      const result = name.startsWith('SDK')
        ? await client.callTool(call, undefined, { onprogress })
        : await client.callTool(call, { onprogress });
      assert.equal(result.structuredContent.status, 'completed', result.content[0].text);
    };
    const worker = async (id) => {
      for (let round = 0; round < ROUNDS / AT_ONCE; round += 1) await evaluate(id);
    };
    await Promise.all(Array.from({ length: AT_ONCE }, (_, index) => worker(`task-${index}`)));
    assert.ok(pings >= ROUNDS, `${pings} pings in ${ROUNDS} rounds`);
    assert.deepEqual(client.reported, []);
  });
}
