import { redisBackend } from '../../../lib/backend/redis/redis-backend.js';
import { QuotaManager } from '../../../lib/quota/quota-manager.js';

/** Buys one unit for each buyer, all at once, when told to; tells how many were served. */
const [url = '', key = '', buyers = '0', name = String(process.pid)] = process.argv.slice(2);

const backend = redisBackend({ redis: url });
const quotas = new QuotaManager({ backend });

process.once('message', () => {
  void buy().then(
    (counts) => process.send!({ type: 'bought', ...counts }, () => process.disconnect()),
    (error: unknown) => process.send!({ type: 'failed', error: String(error) }),
  );
});

async function buy(): Promise<{ served: number; refused: number }> {
  const receipts = await Promise.all(
    Array.from({ length: Number(buyers) }, (_, buyer) =>
      quotas.tryDeduct(key, 1, { operationId: `${name}:${buyer}` }),
    ),
  );
  await backend.close();
  const served = receipts.filter((receipt) => receipt !== null).length;
  return { served, refused: receipts.length - served };
}

void backend.start(10_000).then(() => process.send!({ type: 'ready' }));
