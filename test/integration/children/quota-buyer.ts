import { redisBackend } from '../../../lib/backend/redis/redis-backend.js';
import { QuotaManager } from '../../../lib/quota/quota-manager.js';

/** Buys for each buyer, all at once, when told to: 1 unit, or 1 to 7; tells how much was served. */
const [url = '', key = '', buyers = '0', name = String(process.pid), most = '1'] = process.argv.slice(2);

const backend = redisBackend({ redis: url });
const quotas = new QuotaManager({ backend });

process.once('message', () => {
  void buy().then(
    (counts) => process.send!({ type: 'bought', ...counts }, () => process.disconnect()),
    (error: unknown) => process.send!({ type: 'failed', error: String(error) }),
  );
});

async function buy(): Promise<{ served: number; refused: number; units: number }> {
  const receipts = await Promise.all(
    Array.from({ length: Number(buyers) }, (_, buyer) =>
      quotas.tryDeduct(key, 1 + Math.floor(Math.random() * Number(most)), {
        operationId: `${name}:${buyer}`,
      }),
    ),
  );
  await backend.close();
  const served = receipts.filter((receipt) => receipt !== null).length;
  const units = receipts.reduce((sum, receipt) => sum + (receipt?.amount ?? 0), 0);
  return { served, refused: receipts.length - served, units };
}

void backend.start(10_000).then(() => process.send!({ type: 'ready' }));
