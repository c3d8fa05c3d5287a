// The marker's signature, computed again by other code: what the original's own readers do.

import assert from 'node:assert/strict';
import { createHash, createHmac } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import test from 'node:test';

import { clients } from './clients.mjs';
import { TestEnvironment } from './environment.mjs';

function sign(key, { id, head, ready, confidence, blockers, timestamp, source }) {
  const body = JSON.stringify({ head, ready, confidence, blockers });
  const reportContentHash = createHash('sha256').update(body).digest('hex');
  const approval = { markerId: `solution-verdict-${id}`, approvedAt: timestamp, approvedBy: source, reportContentHash };
  return createHmac('sha256', key).update(JSON.stringify(approval)).digest('hex');
}

test('the signature of a real verdict verifies with node:crypto', async (t) => {
  const environment = new TestEnvironment(t);
  const repoPath = environment.repository();
  const client = await clients[0].connect(t, environment);
  for (const id of ['task-1', 'Ä "quoted" \u2028 id']) {
    const { structuredContent: answer } = await client.callTool({ name: 'solution_evaluate', arguments: { id, repoPath } });
    assert.equal(answer.status, 'completed', JSON.stringify(answer));
    const text = readFileSync(answer.markerPath, 'utf8');
    const marker = JSON.parse(text);
    const key = readFileSync(join(environment.home, '.harness/harness.generated/.approval-signing.key'));
    assert.equal(marker.alg, 'hmac-sha256-v1');
    assert.equal(marker.signature, sign(key, marker));
    assert.equal(text, `${JSON.stringify(marker, null, 2)}\n`);
  }
});
