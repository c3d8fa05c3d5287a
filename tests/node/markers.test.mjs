// Markers read and verified by other code: numbers and texts as JSON.stringify writes them, byte for byte.

import assert from 'node:assert/strict';
import { createHash, createHmac } from 'node:crypto';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import test from 'node:test';

import { clients } from './clients.mjs';
import { TestEnvironment } from './environment.mjs';

const PRINT = `[ "$1" = run ] || exit 0
cd "$(dirname "$0")"
cat payload
exit 1`;

const BLOCKERS = [
  'plain', '', ' ', '"quoted" \\ / \b \f \n \r \t', '\u0000 \u001b[31m \u007f \u0080', '\u2028 \u2029', '<!-- & -->',
  'Ä ß 漢字 😀 \ufeff \ufffd', 'e\u0301 \u00e9', '{"ready":true}', 'x'.repeat(100_000),
];
// As they may be written, not as they are written again.
const CONFIDENCES = ['0', '-0', '0.0', '1', '1.0', '1e0', '0.9', '0.90', '0.30000000000000004', '1e-7', '0.000001', '5e-324', '0.1e1'];

test('markers verify with node:crypto whatever their texts and numbers', async (t) => {
  const environment = new TestEnvironment(t);
  environment.variables.SOLUTION_PREFLIGHT_BIN = environment.script('preflight', PRINT);
  const repoPath = environment.repository();
  const client = await clients[0].connect(t, environment);
  for (const [index, confidence] of CONFIDENCES.entries()) {
    const id = `task ${index} ${BLOCKERS[index % 8]}`;
    const payload = `{"ready":false,"confidence":${confidence},"blockers":${JSON.stringify(BLOCKERS)}}`;
    writeFileSync(join(environment.home, 'payload'), payload);
    const { structuredContent: answer } = await client.callTool({ name: 'solution_evaluate', arguments: { id, repoPath } });
    assert.equal(answer.status, 'completed', JSON.stringify(answer));

    const text = readFileSync(answer.markerPath, 'utf8');
    const marker = JSON.parse(text);
    assert.deepEqual(marker.blockers, BLOCKERS);
    assert.ok(Object.is(Math.abs(marker.confidence), Math.abs(Number(confidence))), confidence);
    assert.equal(text, `${JSON.stringify(marker, null, 2)}\n`);
    const { head, ready, blockers } = marker;
    const body = JSON.stringify({ head, ready, confidence: marker.confidence, blockers });
    const approval = {
      markerId: `solution-verdict-${id}`,
      approvedAt: marker.timestamp,
      approvedBy: marker.source,
      reportContentHash: createHash('sha256').update(body).digest('hex'),
    };
    const key = readFileSync(join(environment.home, '.harness/harness.generated/.approval-signing.key'));
    assert.equal(marker.signature, createHmac('sha256', key).update(JSON.stringify(approval)).digest('hex'), confidence);
    const gate = await client.callTool({ name: 'solution_gate', arguments: { id, repoPath } });
    assert.equal(gate.structuredContent.code, 'not_ready', JSON.stringify(gate.structuredContent).slice(0, 500));
  }
});
